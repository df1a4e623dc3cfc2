//! `shell`: any command, by bash where there is one.

use std::{path::Path, time::Duration};

use super::{Fields, Returned, ToolError, process};
use crate::session::Session;

const BASH: &str = "/bin/bash";
const SH: &str = "/bin/sh";

pub(super) async fn run(session: &Session, fields: &mut Fields<'_>) -> Result<Returned, ToolError> {
    let text = fields.text("command")?;
    let asked = fields.optional_count("timeout_ms")?;
    fields.end()?;
    if text.contains('\0') {
        return Err(fields.wrong("command", "contains a NUL character"));
    }
    let most = session.limits.tool_timeout_ms;
    let limit = Duration::from_millis(asked.unwrap_or(most).min(most));
    let shell = program();
    let mut command = session.command(shell);
    // A login shell, so that what profiles put into PATH is found.
    command.arg(if shell == BASH { "-lc" } else { "-c" }).arg(text);
    let ended = process::run(command, b"", session.limits.tool_result_bytes, limit).await;
    let ended = ended.map_err(|err| ToolError::new(format!("{shell} did not start: {err}")))?;
    ended.returned()
}

/// The best shell that is installed.
pub(super) fn program() -> &'static str {
    if Path::new(BASH).exists() { BASH } else { SH }
}
