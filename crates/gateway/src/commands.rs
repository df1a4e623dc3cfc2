//! `/commands`: the whole life of a command with nothing but curl.

mod find;
mod start;
mod stream;

use axum::{
    Json,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http_kit::{Body, Caller, Fault, Query};
use sandbox::ProcessError;
use serde::Deserialize;
use serde_json::json;
use wire::{Code, CommandInfo, process as pb};

use self::{
    find::{Place, pid_of},
    stream::Attached,
};
use crate::{Gateway, fault};

pub(crate) use start::start;

/// `?sandbox_id=`, because pids repeat across sandboxes; `?after=` to read output.
#[derive(Debug, Deserialize)]
pub(crate) struct CommandQuery {
    sandbox_id: Option<String>,
    after: Option<u64>,
}

/// `GET /commands`: what runs, in all of the caller's sandboxes or in one.
pub(crate) async fn list(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Query(query): Query<CommandQuery>,
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

/// `GET /commands/{pid}`: what it is; with `?after=N`, its output from line
/// N + 1 on, as far as it is kept, and then as it comes.
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
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kill {
    signal: Option<KillSignal>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum KillSignal {
    #[serde(rename = "SIGTERM")]
    Term,
    #[serde(rename = "SIGKILL")]
    Kill,
}

/// `POST /commands/{pid}/kill`.
pub(crate) async fn kill(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Path(pid): Path<String>,
    Query(query): Query<CommandQuery>,
    Body(kill): Body<Kill>,
) -> Result<Json<serde_json::Value>, Fault> {
    let place = Place::find(&gateway, &team, pid_of(&pid)?, query.sandbox_id.as_deref())?;
    let (signal, name) = match kill.signal.unwrap_or(KillSignal::Kill) {
        KillSignal::Term => (pb::Signal::SIGNAL_SIGTERM, "SIGTERM"),
        KillSignal::Kill => (pb::Signal::SIGNAL_SIGKILL, "SIGKILL"),
    };
    let pid = place.info.pid;
    place.sandbox.send_signal(pb::ProcessSelector::pid(pid), signal).await.map_err(
        |err| match err {
            ProcessError::Refused { code: Code::NotFound, .. } => find::unknown(pid),
            ProcessError::Envd(_) | ProcessError::Refused { .. } | ProcessError::Malformed(_) => {
                fault::of_process(err)
            }
        },
    )?;
    Ok(Json(json!({"pid": pid, "sandbox_id": place.info.sandbox_id, "signal": name})))
}
