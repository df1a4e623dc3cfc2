//! `/commands`: the whole life of a command with nothing but curl.

mod find;
pub(crate) mod start;
mod stream;

use axum::{
    Json,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http_kit::{Body, Caller, Fault, Query};
use sandbox::ProcessError;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wire::{Code, CommandInfo, process as pb};

use self::{
    find::{Place, pid_of},
    stream::Attached,
};
use crate::{
    Gateway,
    described::{self, NoCommand, Refused},
    fault,
};

/// `?sandbox_id=`, because pids repeat across sandboxes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PlaceQuery {
    /// The sandbox that is meant; pids repeat across sandboxes.
    sandbox_id: Option<String>,
}

/// The same, and `?after=` to read output.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CommandQuery {
    /// The sandbox that is meant; pids repeat across sandboxes.
    sandbox_id: Option<String>,
    /// The number of the last line that is known; the output begins behind it.
    after: Option<u64>,
}

/// What runs, in all of the caller's sandboxes or in one.
#[utoipa::path(
    get,
    path = "/commands",
    operation_id = "list_commands",
    tag = "commands",
    params(PlaceQuery),
    responses(
        (status = 200, description = "The commands.", body = Vec<described::CommandInfo>),
        (status = 400, description = "A parameter is wrong.", body = described::Fault),
        (status = 404, description = "There is no such sandbox.", body = described::Fault),
        Refused,
    ),
)]
pub(crate) async fn list(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Query(query): Query<PlaceQuery>,
) -> Result<Json<Vec<CommandInfo>>, Fault> {
    let sandboxes = match &query.sandbox_id {
        Some(id) => vec![gateway.owned(id, &team)?],
        None => gateway.sandboxes.list(&team.0),
    };
    let mut all: Vec<_> =
        sandboxes.iter().flat_map(|sandbox| sandbox.commands().active()).collect();
    all.sort_by_key(|command| (command.started_at, command.pid));
    Ok(Json(all))
}

/// What a command is, or its output.
///
/// With `after=N`, its output from line N + 1 on, as far as it is kept, and then
/// as it comes.
#[utoipa::path(
    get,
    path = "/commands/{pid}",
    operation_id = "get_command",
    tag = "commands",
    params(
        ("pid" = u32, Path, description = "The pid inside the sandbox."),
        CommandQuery,
    ),
    responses(
        (
            status = 200,
            description = "The command; with `after`, its lines.",
            content(
                (described::CommandInfo = "application/json"),
                (String = "application/x-ndjson"),
            ),
        ),
        NoCommand,
        Refused,
    ),
)]
pub(crate) async fn look(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Path(pid): Path<String>,
    Query(query): Query<CommandQuery>,
) -> Result<Response, Fault> {
    let place = Place::find(&gateway, &team, pid_of(&pid)?, query.sandbox_id.as_deref())?;
    match query.after {
        None => Ok(Json(place.info).into_response()),
        Some(after) => Ok(Attached::connect(&place, after).await?.into_response()),
    }
}

/// Body of the kill: which signal. SIGKILL when it says nothing.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kill {
    signal: Option<KillSignal>,
}

/// A signal that ends a command.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
enum KillSignal {
    #[serde(rename = "SIGTERM")]
    Term,
    #[serde(rename = "SIGKILL")]
    Kill,
}

/// Which command was sent which signal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Killed {
    pid: u32,
    sandbox_id: String,
    signal: KillSignal,
}

/// Sends a signal that ends a command.
#[utoipa::path(
    post,
    path = "/commands/{pid}/kill",
    operation_id = "kill_command",
    tag = "commands",
    params(
        ("pid" = u32, Path, description = "The pid inside the sandbox."),
        PlaceQuery,
    ),
    request_body(content = Option<Kill>, description = "SIGKILL when it says nothing."),
    responses(
        (status = 200, description = "The signal was sent.", body = Killed),
        (status = 413, description = "The body is too large.", body = described::Fault),
        (status = 415, description = "The body is not JSON.", body = described::Fault),
        NoCommand,
        Refused,
    ),
)]
pub(crate) async fn kill(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Path(pid): Path<String>,
    Query(query): Query<PlaceQuery>,
    Body(kill): Body<Kill>,
) -> Result<Json<Killed>, Fault> {
    let place = Place::find(&gateway, &team, pid_of(&pid)?, query.sandbox_id.as_deref())?;
    let signal = kill.signal.unwrap_or(KillSignal::Kill);
    let number = match signal {
        KillSignal::Term => pb::Signal::SIGNAL_SIGTERM,
        KillSignal::Kill => pb::Signal::SIGNAL_SIGKILL,
    };
    let pid = place.info.pid;
    place.sandbox.send_signal(pb::ProcessSelector::pid(pid), number).await.map_err(
        |err| match err {
            ProcessError::Refused { code: Code::NotFound, .. } => find::unknown(pid),
            ProcessError::Envd(_) | ProcessError::Refused { .. } | ProcessError::Malformed(_) => {
                fault::of_process(err)
            }
        },
    )?;
    Ok(Json(Killed { pid, sandbox_id: place.info.sandbox_id, signal }))
}
