//! `POST /stream` and `GET /runs/{id}/stream`: a run's log as it grows.
//!
//! A caller of the former that hangs up ends the run, unless it said that the
//! run continues. A reader of the latter may come and go.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use http_kit::{Caller, Fault, Query, Team};
use serde::Deserialize;
use utoipa::IntoParams;
use wire::{Code, agui::Position, run::RunId};

use crate::{
    caller::Owned,
    described::{self, NoStart, Refused},
    dispatch::{BODY_LIMIT, Dispatch, DispatchBody},
    fault,
    follow::Follower,
    log::Life,
    office::Runner,
    projection::Projection,
};

const RUN_ID: HeaderName = HeaderName::from_static("x-mayfly-run-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Proxies that would collect lines before they pass them on are told not to.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `?after=N`: from entry N + 1 on.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// The number of the last entry that is known; the stream begins behind it. In
    /// AG-UI an entry may be several events: `7.2` is behind the second of entry 7.
    #[param(pattern = "^[0-9]+(\\.[0-9]+)?$")]
    after: Option<String>,
}

/// Puts an agent into a fresh sandbox and streams what it does.
///
/// The last line is a `result` or an `error`. A caller that hangs up ends the
/// run, unless `on_disconnect` says `continue`.
#[utoipa::path(
    post,
    path = "/stream",
    operation_id = "start_run",
    tag = "runs",
    request_body = DispatchBody,
    responses(
        (
            status = 200,
            description = "The log as it grows. `Accept` chooses: the envelope (`log`, `step`, \
                           `result`, `error`), the log as it is, or events of AG-UI.",
            headers(("x-mayfly-run-id" = String, description = "The run's id.")),
            content(
                (
                    String = "application/x-ndjson",
                    example = json!(
                        "{\"type\":\"result\",\"message\":\"Done.\",\"ts\":1794778857632}\n"
                    ),
                ),
                (String = "application/vnd.mayfly.run+ndjson"),
                (described::ServerSentEvent = "text/event-stream"),
                (String = "application/vnd.ag-ui.event+ndjson"),
                (String = "application/vnd.ag-ui.event+proto"),
            ),
        ),
        NoStart,
        Refused,
    ),
)]
pub(crate) async fn dispatch(
    State(runner): State<Runner>,
    Caller(team): Caller,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Fault> {
    let projection = Projection::asked(&headers);
    let dispatch = Dispatch::parse(&body(request).await?).map_err(fault::of_body)?;
    start(&runner, team, dispatch, projection).await
}

/// Starts a run and answers with its log. The answer is the caller's line: it ends
/// the run when it is dropped, unless the run continues.
pub(crate) async fn start(
    runner: &Runner,
    team: Team,
    dispatch: Dispatch,
    projection: Projection,
) -> Result<Response, Fault> {
    let started = runner.office.dispatch(team.0, dispatch).await;
    let line = started.map_err(fault::of_dispatch)?;
    let run = Arc::clone(line.run());
    let start = Position::after(0);
    let follower = Follower::open(run.directory(), run.progress(), projection, start);
    let follower = follower.map_err(|err| no_log(&run.row().id, err))?.for_caller(line);
    Ok(answer(&run.row().id, projection, follower))
}

/// Streams a run that was started before, from any entry on.
///
/// A reader may come and go; the run does not care.
#[utoipa::path(
    get,
    path = "/runs/{id}/stream",
    operation_id = "follow_run",
    tag = "runs",
    params(
        ("id" = String, Path, description = "The run."),
        After,
        ("Last-Event-ID" = Option<String>, Header, description = "As `after`, and before it."),
    ),
    responses(
        (
            status = 200,
            description = "What is there of the log, then what comes, in the format of `Accept`.",
            headers(("x-mayfly-run-id" = String, description = "The run's id.")),
            content(
                (String = "application/x-ndjson"),
                (String = "application/vnd.mayfly.run+ndjson"),
                (described::ServerSentEvent = "text/event-stream"),
                (String = "application/vnd.ag-ui.event+ndjson"),
                (String = "application/vnd.ag-ui.event+proto"),
            ),
        ),
        (
            status = 204,
            description = "The run has ended, and whoever reads its server-sent events has all.",
        ),
        (status = 400, description = "The number is none.", body = described::Fault),
        (status = 404, description = "No such run, or its log is gone.", body = described::Fault),
        Refused,
    ),
)]
pub(crate) async fn follow(
    State(runner): State<Runner>,
    owned: Owned,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let projection = Projection::asked(&headers);
    // An `EventSource` comes back to the same address, and knows more by then.
    let after = match (last_event(&headers)?, query.after) {
        (Some(last), _) => last,
        (None, Some(after)) => place("after", Some(&after))?,
        (None, None) => Position::after(0),
    };
    go_on(&runner, owned, projection, after)
}

/// Where somebody was who comes back, as an `EventSource` says it.
pub(crate) fn last_event(headers: &HeaderMap) -> Result<Option<Position>, Fault> {
    let id = headers.get(LAST_EVENT_ID);
    id.map(|id| place("Last-Event-ID", id.to_str().ok())).transpose()
}

/// Answers with a run's log from a position on.
pub(crate) fn go_on(
    runner: &Runner,
    owned: Owned,
    projection: Projection,
    after: Position,
) -> Result<Response, Fault> {
    let Owned { row, progress } = owned;
    let known = *progress.borrow();
    let has_all = known.life == Life::Ended && after.seen(known.seq, usize::MAX) == usize::MAX;
    if has_all && projection.keep_alive().is_some() {
        // An `EventSource` comes back until it is told that there is nothing more.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let directory = runner.office.shelf.of(&row.id);
    let follower = Follower::open(&directory, progress, projection, after);
    let follower = follower.map_err(|err| no_log(&row.id, err))?;
    Ok(answer(&row.id, projection, follower))
}

fn place(name: &str, text: Option<&str>) -> Result<Position, Fault> {
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        let message = format!("`{name}` is not the number of an entry, nor a place in one");
        Fault::new(Code::InvalidArgument, message)
    })
}

pub(crate) async fn body(request: Request) -> Result<Bytes, Fault> {
    axum::body::to_bytes(request.into_body(), BODY_LIMIT).await.map_err(|_| {
        let message = format!("body was cut off or is larger than {BODY_LIMIT} bytes");
        Fault::new(Code::ResourceExhausted, message).with_status(StatusCode::PAYLOAD_TOO_LARGE)
    })
}

fn answer(id: &RunId, projection: Projection, follower: Follower) -> Response {
    let lines = stream::unfold(follower, |mut follower| async move {
        let lines = follower.next().await?;
        Some((lines, follower))
    });
    let mut response = Body::from_stream(lines).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, projection.content_type());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        headers.insert(RUN_ID, id);
    }
    response
}

fn no_log(id: &RunId, err: std::io::Error) -> Fault {
    if err.kind() == std::io::ErrorKind::NotFound {
        return Fault::new(Code::NotFound, format!("the log of run `{id}` is not kept any more"));
    }
    Fault::new(Code::Internal, format!("the log of run `{id}` cannot be read")).caused_by(err)
}
