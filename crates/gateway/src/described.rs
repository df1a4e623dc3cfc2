//! What the API document says of messages that are `wire`'s, which knows nothing
//! of documents, and of how routes refuse.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use utoipa::{IntoResponses, ToSchema};

/// The body of an answer that is no success.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes `wire::RestError`")]
pub(crate) struct Fault {
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    code: u16,
    /// What was wrong.
    message: String,
}

/// How every route with a key may refuse.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it describes answers that `http_kit::Fault` makes")]
pub(crate) enum Refused {
    /// No API key, or none that is known.
    #[response(status = 401)]
    Key(Fault),
    /// It failed inside; the server's log says why.
    #[response(status = 500)]
    Inside(Fault),
}

/// How routes of one command may refuse, besides.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it describes answers that `http_kit::Fault` makes")]
pub(crate) enum NoCommand {
    /// The pid is no number, or a parameter is wrong.
    #[response(status = 400)]
    Wrong(Fault),
    /// There is no such command or sandbox, or it is another team's.
    #[response(status = 404)]
    Unknown(Fault),
    /// The pid is that of commands in several sandboxes; `sandbox_id` tells which.
    #[response(status = 409)]
    Ambiguous(Fault),
    /// The sandbox does not answer.
    #[response(status = 503)]
    Silent(Fault),
}

/// A command to run.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"cmd": "echo hello"}))]
#[expect(dead_code, reason = "it describes `wire::CommandRequest`")]
pub(crate) struct CommandRequest {
    /// A shell line; with `args`, the program to run as it is.
    #[schema(min_length = 1)]
    cmd: String,
    /// Arguments for a program that should not go through a shell.
    args: Option<Vec<String>>,
    /// The sandbox to run in. Without it a fresh one lives as long as the command.
    sandbox_id: Option<String>,
    /// What the fresh sandbox is made from.
    template: Option<String>,
    /// Milliseconds until SIGKILL: 60,000 when left out, 0 for no limit.
    timeout_ms: Option<u64>,
    /// Working directory; the user's home when left out.
    cwd: Option<String>,
    /// Who runs it; the template's user when left out.
    user: Option<String>,
    /// Variables for this command alone.
    #[schema(required = false)]
    envs: BTreeMap<String, String>,
}

/// A command that runs, or ended not long ago.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes `wire::CommandInfo`")]
pub(crate) struct CommandInfo {
    /// The pid inside the sandbox.
    pid: u32,
    /// The sandbox; pids repeat across sandboxes.
    sandbox_id: String,
    /// The program.
    cmd: String,
    /// Its arguments.
    args: Vec<String>,
    /// Its working directory, when the caller chose one.
    #[schema(nullable = false)]
    cwd: Option<String>,
    /// The name its starter gave it.
    #[schema(nullable = false)]
    tag: Option<String>,
    state: CommandState,
    /// Set when it ended by itself.
    #[schema(nullable = false)]
    exit_code: Option<i32>,
    /// Why it ended, when its exit code does not tell.
    #[schema(nullable = false)]
    reason: Option<CommandReason>,
    /// When the server learned of it.
    started_at: DateTime<Utc>,
}

/// Running, or how it ended.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes `wire::CommandState`")]
enum CommandState {
    Running,
    Ok,
    Error,
    Killed,
}

/// Why a command ended.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes `wire::CommandReason`")]
enum CommandReason {
    OutOfMemory,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};
    use utoipa::PartialSchema;

    use super::{CommandInfo, CommandRequest, CommandState, Fault};

    fn schema<T: PartialSchema>() -> Value {
        serde_json::to_value(T::schema()).unwrap()
    }

    fn names(object: &Value) -> BTreeSet<&str> {
        object.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn what_is_described_is_what_wire_writes() {
        let info = json!({"pid": 1, "sandbox_id": "a", "cmd": "b", "args": [], "cwd": "/",
            "tag": "c", "state": "killed", "exit_code": 1, "reason": "out_of_memory",
            "started_at": "2026-01-01T00:00:00Z"});
        let whole: wire::CommandInfo = serde_json::from_value(info).unwrap();
        let whole = serde_json::to_value(whole).unwrap();
        assert_eq!(names(&schema::<CommandInfo>()["properties"]), names(&whole));
        let states = schema::<CommandState>()["enum"].clone();
        let read: Vec<wire::CommandState> = serde_json::from_value(states.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), states);
        let fault = serde_json::to_value(wire::RestError { code: 404, message: String::new() });
        assert_eq!(names(&schema::<Fault>()["properties"]), names(&fault.unwrap()));
    }

    #[test]
    fn what_is_described_is_what_wire_reads() {
        let schema = schema::<CommandRequest>();
        assert_eq!(schema["required"], json!(["cmd"]));
        for name in names(&schema["properties"]) {
            let mut body = json!({"cmd": "true"});
            body[name] = json!(true);
            let refused = serde_json::from_value::<wire::CommandRequest>(body);
            let complaint = refused.unwrap_err().to_string();
            assert!(complaint.contains("invalid type"), "{name}: {complaint}");
        }
    }
}
