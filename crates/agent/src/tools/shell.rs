//! `shell`: any command, by bash where there is one.

use std::time::Duration;

use super::{Fields, Returned, ToolError, process};
use crate::{session::Session, shell::Shell};

pub(super) async fn run(session: &Session, fields: &mut Fields<'_>) -> Result<Returned, ToolError> {
    let text = fields.text("command")?;
    let asked = fields.optional_count("timeout_ms")?;
    fields.end()?;
    if text.contains('\0') {
        return Err(fields.wrong("command", "contains a NUL character"));
    }
    let most = session.limits.tool_timeout_ms;
    let limit = Duration::from_millis(asked.unwrap_or(most).min(most));
    let shell = Shell::installed();
    let mut command = session.command(shell.program());
    // A login shell, so that what profiles put into PATH is found.
    let flags = match shell {
        Shell::Bash => "-lc",
        Shell::Plain => "-c",
    };
    command.arg(flags).arg(text);
    let ended = process::run(command, b"", session.limits.tool_result_bytes, limit).await;
    let ended =
        ended.map_err(|err| ToolError::new(format!("{} did not start: {err}", shell.program())))?;
    ended.returned()
}
