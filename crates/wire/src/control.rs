//! The private stream on which envd tells the host about its commands, and the
//! one message the host sends back.
//!
//! NDJSON, host side reading. The host trusts none of it: lines are bounded,
//! unknown pids are ignored, and no clock of the sandbox is believed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CommandReason, Stream};

/// How a command is booked. Each started command is booked exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Exit code 0.
    Ok,
    /// Any other end of its own.
    Error,
    /// A signal by a client, a timeout, or the sandbox's end.
    Killed,
}

/// One line of `GET /control`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ControlMessage {
    /// Everything at once: the first line, and again after events were lost
    /// because the host read too slowly.
    Snapshot {
        /// Commands started since envd began.
        started: u64,
        /// Of those, ended well.
        ok: u64,
        /// Ended otherwise.
        error: u64,
        /// Killed.
        killed: u64,
        /// Still running.
        commands: Vec<Started>,
    },
    /// A command runs.
    Start(Started),
    /// Output, one or more lines of one command, for the sandbox's log.
    Log {
        /// Whose.
        pid: u32,
        /// Which pipe.
        stream: Stream,
        /// The text.
        text: String,
        /// Bytes left out before this because the host read too slowly.
        #[serde(skip_serializing_if = "is_zero", default)]
        dropped: u64,
    },
    /// A command is booked.
    End {
        /// Which.
        pid: u32,
        /// As what.
        outcome: Outcome,
        /// Its exit code, when it has one by now.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        exit_code: Option<i32>,
        /// Why, when its exit code does not tell.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<CommandReason>,
    },
}

/// What the host needs to know of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its pid inside the sandbox.
    pub pid: u32,
    /// The program.
    pub cmd: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub args: Vec<String>,
    /// Its working directory, when the caller chose one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
    /// The name its starter gave it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tag: Option<String>,
}

/// Body of `POST /init`: what a sandbox gets when it is claimed rather than
/// when it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Init {
    /// Variables every command starts with.
    #[serde(default)]
    pub envs: BTreeMap<String, String>,
    /// Who runs commands when a caller names nobody; init's own user when absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// Where commands start when a caller says nothing; the user's home when absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workdir: Option<String>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::{ControlMessage, Outcome, Started};
    use crate::{CommandReason, Stream};

    #[track_caller]
    fn check(message: ControlMessage, expected: &str) {
        assert_eq!(serde_json::to_string(&message).unwrap(), expected);
        assert_eq!(serde_json::from_str::<ControlMessage>(expected).unwrap(), message);
    }

    #[test]
    fn messages_have_golden_bytes() {
        let started =
            Started { pid: 7, cmd: "/bin/true".into(), args: vec![], cwd: None, tag: None };
        check(
            ControlMessage::Snapshot {
                started: 3,
                ok: 1,
                error: 1,
                killed: 0,
                commands: vec![started.clone()],
            },
            r#"{"type":"snapshot","started":3,"ok":1,"error":1,"killed":0,"commands":[{"pid":7,"cmd":"/bin/true"}]}"#,
        );
        check(ControlMessage::Start(started), r#"{"type":"start","pid":7,"cmd":"/bin/true"}"#);
        check(
            ControlMessage::Log { pid: 7, stream: Stream::Stdout, text: "a\n".into(), dropped: 0 },
            r#"{"type":"log","pid":7,"stream":"stdout","text":"a\n"}"#,
        );
        check(
            ControlMessage::End { pid: 7, outcome: Outcome::Killed, exit_code: None, reason: None },
            r#"{"type":"end","pid":7,"outcome":"killed"}"#,
        );
        check(
            ControlMessage::End {
                pid: 7,
                outcome: Outcome::Error,
                exit_code: Some(-1),
                reason: Some(CommandReason::OutOfMemory),
            },
            r#"{"type":"end","pid":7,"outcome":"error","exit_code":-1,"reason":"out_of_memory"}"#,
        );
    }
}
