//! The NDJSON alias of seed 004: `POST /commands` and its lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Outcome;

/// Body of `POST /commands`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    /// A shell line; with `args`, the program to run as it is.
    pub cmd: String,
    /// Arguments for a program that should not go through a shell.
    pub args: Option<Vec<String>>,
    /// The sandbox to run in. Without it a fresh one lives as long as the command.
    pub sandbox_id: Option<String>,
    /// What the fresh sandbox is made from.
    pub template: Option<String>,
    /// Milliseconds until SIGKILL: 60,000 when left out, 0 for no limit.
    pub timeout_ms: Option<u64>,
    /// Working directory; the user's home when left out.
    pub cwd: Option<String>,
    /// Who runs it; the template's user when left out.
    pub user: Option<String>,
    /// Variables for this command alone.
    #[serde(default)]
    pub envs: BTreeMap<String, String>,
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum CommandLine {
    /// The command runs.
    Start {
        /// Its pid inside the sandbox.
        pid: u32,
        /// Where; pids repeat across sandboxes.
        sandbox_id: String,
    },
    /// A line of standard output, newline kept.
    Stdout {
        /// The text.
        data: String,
        /// The line's number since the command began, when the reader asked by number.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        seq: Option<u64>,
    },
    /// A line of standard error.
    Stderr {
        /// The text.
        data: String,
        /// As for `stdout`.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        seq: Option<u64>,
    },
    /// Output of a terminal that some other client opened.
    Pty {
        /// The text.
        data: String,
        /// As for `stdout`.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        seq: Option<u64>,
    },
    /// The command is over; always the last line of a whole answer.
    End {
        /// Its exit code; -1 when a signal ended it.
        exit_code: i32,
        /// Why, when its exit code does not tell.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<CommandReason>,
    },
    /// The answer ends early: the sandbox is gone, or the reader was too slow.
    Error {
        /// A code of ours.
        code: String,
        /// What happened.
        message: String,
    },
}

impl CommandLine {
    /// The line with its newline.
    pub fn to_line(&self) -> String {
        // Strings and numbers only, so this cannot fail.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// Where a command is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandState {
    /// Started and not yet ended or signalled.
    Running,
    /// Exited with code 0.
    Ok,
    /// Exited otherwise, or died of a signal that we did not send.
    Error,
    /// Ended by a client's signal, a timeout, or its sandbox's end.
    Killed,
}

/// Why a command ended, when its exit code does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandReason {
    /// Memory ran out, and the kernel chose it.
    OutOfMemory,
}

impl CommandReason {
    /// Its name on every wire; E2B's clients get it as the end event's `error`.
    pub fn name(self) -> &'static str {
        match self {
            CommandReason::OutOfMemory => "out_of_memory",
        }
    }

    /// The reason of that name.
    pub fn parse(name: &str) -> Option<CommandReason> {
        (name == CommandReason::OutOfMemory.name()).then_some(CommandReason::OutOfMemory)
    }
}

impl From<Outcome> for CommandState {
    fn from(outcome: Outcome) -> CommandState {
        match outcome {
            Outcome::Ok => CommandState::Ok,
            Outcome::Error => CommandState::Error,
            Outcome::Killed => CommandState::Killed,
        }
    }
}

/// An entry of `GET /commands`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandInfo {
    /// The pid inside the sandbox.
    pub pid: u32,
    /// The sandbox.
    pub sandbox_id: String,
    /// The program.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its working directory, when the caller chose one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
    /// The name its starter gave it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tag: Option<String>,
    /// Running, or how it ended.
    pub state: CommandState,
    /// Set when it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
    /// Why it ended, when its exit code does not tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<CommandReason>,
    /// When the server learned of it, RFC 3339.
    pub started_at: chrono::DateTime<chrono::Utc>,
}

#[cfg(test)]
mod tests {
    use super::{CommandLine, CommandReason};

    #[track_caller]
    fn check(line: CommandLine, expected: &str) {
        assert_eq!(line.to_line(), expected);
        assert_eq!(serde_json::from_str::<CommandLine>(expected).unwrap(), line);
    }

    #[test]
    fn lines_have_golden_bytes() {
        check(
            CommandLine::Start { pid: 87654, sandbox_id: "i1".into() },
            "{\"type\":\"start\",\"pid\":87654,\"sandbox_id\":\"i1\"}\n",
        );
        check(
            CommandLine::Stdout { data: "1\n".into(), seq: None },
            "{\"type\":\"stdout\",\"data\":\"1\\n\"}\n",
        );
        check(
            CommandLine::Stderr { data: "x".into(), seq: Some(7) },
            "{\"type\":\"stderr\",\"data\":\"x\",\"seq\":7}\n",
        );
        check(
            CommandLine::End { exit_code: -1, reason: None },
            "{\"type\":\"end\",\"exit_code\":-1}\n",
        );
        let reason = CommandReason::OutOfMemory;
        check(
            CommandLine::End { exit_code: -1, reason: Some(reason) },
            "{\"type\":\"end\",\"exit_code\":-1,\"reason\":\"out_of_memory\"}\n",
        );
        assert_eq!(CommandReason::parse(reason.name()), Some(reason));
    }
}
