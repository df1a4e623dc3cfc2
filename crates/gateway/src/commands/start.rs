//! `POST /commands`: runs a command and streams it as NDJSON.
//!
//! A client that hangs up leaves a command in a named sandbox running. The
//! sandbox that was made for the command alone ends with its client: nobody
//! else knows its name.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http_kit::{Body, Caller, Fault, Team};
use sandbox::Lifetime;
use wire::{Code, CommandRequest, process as pb};

use super::stream::{Attached, Fresh};
use crate::{
    Gateway,
    described::{self, Refused},
    e2b, fault,
};

/// Unless the caller says otherwise.
const TIMEOUT_MS: u64 = 60_000;
/// A sandbox of its own outlives its command by this, for starting and ending.
const MARGIN_SECONDS: u64 = 60;
/// How long a sandbox of its own lives when its command has no limit.
const UNLIMITED_SECONDS: u64 = 24 * 3600;

/// Runs a command in the sandbox that was named, or in a fresh one.
///
/// A client that hangs up leaves a command in a named sandbox running. A fresh
/// sandbox ends with its client.
#[utoipa::path(
    post,
    path = "/commands",
    operation_id = "start_command",
    tag = "commands",
    request_body = described::CommandRequest,
    responses(
        (
            status = 200,
            description = "What the command does, one JSON object a line: `start`, then `stdout`, \
                           `stderr` and `pty`, and `end` or `error` at last.",
            body = String,
            content_type = "application/x-ndjson",
            example = json!("{\"type\":\"end\",\"exit_code\":0}\n"),
        ),
        (status = 400, description = "A field is wrong.", body = described::Fault),
        (status = 404, description = "No such sandbox or template.", body = described::Fault),
        (status = 413, description = "The body is too large.", body = described::Fault),
        (status = 415, description = "The body is not JSON.", body = described::Fault),
        (status = 429, description = "There are too many sandboxes.", body = described::Fault),
        (status = 503, description = "The sandbox does not answer.", body = described::Fault),
        Refused,
    ),
)]
pub(crate) async fn start(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Body(request): Body<CommandRequest>,
) -> Result<Response, Fault> {
    if request.cmd.trim().is_empty() {
        return Err(Fault::new(Code::InvalidArgument, "`cmd` must not be empty"));
    }
    if request.sandbox_id.is_some() && request.template.is_some() {
        let message = "`template` is for a fresh sandbox; leave it or `sandbox_id` out";
        return Err(Fault::new(Code::InvalidArgument, message));
    }
    let timeout_ms = request.timeout_ms.unwrap_or(TIMEOUT_MS);
    let (sandbox, fresh) = match &request.sandbox_id {
        Some(id) => (gateway.owned(id, &team)?, None),
        None => {
            let fresh = Fresh::new(&gateway, new_sandbox(&request, team, timeout_ms)?).await?;
            (fresh.sandbox(), Some(fresh))
        }
    };
    let user = request.user.clone();
    let attached = Attached::start(sandbox, message(request), timeout_ms, user.as_deref()).await?;
    Ok(attached.and_end(fresh).into_response())
}

fn message(request: CommandRequest) -> pb::StartRequest {
    let (cmd, args) = match request.args {
        Some(args) => (request.cmd, args),
        None => ("/bin/bash".to_owned(), vec!["-l".to_owned(), "-c".to_owned(), request.cmd]),
    };
    let process =
        pb::ProcessConfig { cmd, args, envs: request.envs.into_iter().collect(), cwd: request.cwd };
    pb::StartRequest { process: process.into(), stdin: Some(false), ..Default::default() }
}

fn new_sandbox(
    request: &CommandRequest,
    team: Team,
    timeout_ms: u64,
) -> Result<sandbox::NewSandbox, Fault> {
    let seconds = match timeout_ms {
        0 => UNLIMITED_SECONDS,
        limited => limited.div_ceil(1000).saturating_add(MARGIN_SECONDS),
    };
    let lifetime = Lifetime::for_new(i64::try_from(seconds).unwrap_or(i64::MAX));
    Ok(sandbox::NewSandbox {
        team: team.0,
        template: request.template.clone().unwrap_or_else(|| e2b::DEFAULT_TEMPLATE.to_owned()),
        lifetime: lifetime.map_err(fault::of_timeout)?,
        metadata: Default::default(),
        envs: Default::default(),
        network: None,
    })
}
