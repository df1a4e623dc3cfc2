//! `POST /stream` and `GET /runs/{id}/stream`: a run's log as it grows.
//!
//! A caller of the former that hangs up ends the run, unless it said that the
//! run continues. A reader of the latter may come and go.

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use http_kit::{Caller, Fault, Query};
use serde::Deserialize;
use utoipa::IntoParams;
use wire::{Code, run::RunId};

use crate::{
    caller::Owned,
    described::{self, Refused},
    dispatch::{BODY_LIMIT, Dispatch, DispatchBody},
    fault,
    follow::Follower,
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
    /// The number of the last entry that is known; the stream begins behind it.
    after: Option<u64>,
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
            description = "The log as it grows, one JSON object a line. `Accept` chooses: the \
                           envelope (`log`, `step`, `result`, `error`), or the log as it is.",
            headers(("x-mayfly-run-id" = String, description = "The run's id.")),
            content(
                (
                    String = "application/x-ndjson",
                    example = json!(
                        "{\"type\":\"result\",\"message\":\"Done.\",\"ts\":1794778857632}\n"
                    ),
                ),
                (String = "application/vnd.mayfly.run+ndjson"),
            ),
        ),
        (status = 400, description = "A field is wrong.", body = described::Fault),
        (status = 406, description = "No such format yet.", body = described::Fault),
        (status = 413, description = "The body is too large.", body = described::Fault),
        (status = 429, description = "There are too many sandboxes.", body = described::Fault),
        (status = 503, description = "No sandbox can be started now.", body = described::Fault),
        Refused,
    ),
)]
pub(crate) async fn dispatch(
    State(runner): State<Runner>,
    Caller(team): Caller,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Fault> {
    let projection = Projection::asked(&headers)?;
    let dispatch = Dispatch::parse(&body(request).await?).map_err(fault::of_body)?;
    let started = runner.office.dispatch(team.0, dispatch).await;
    let line = started.map_err(fault::of_dispatch)?;
    let run = std::sync::Arc::clone(line.run());
    let follower = Follower::open(run.directory(), run.progress(), projection, 0);
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
        ("Last-Event-ID" = Option<u64>, Header, description = "As `after`, when that is missing."),
    ),
    responses(
        (
            status = 200,
            description = "What is there of the log, then what comes, in the format of `Accept`.",
            headers(("x-mayfly-run-id" = String, description = "The run's id.")),
            content(
                (String = "application/x-ndjson"),
                (String = "application/vnd.mayfly.run+ndjson"),
            ),
        ),
        (status = 400, description = "The number is none.", body = described::Fault),
        (status = 404, description = "No such run, or its log is gone.", body = described::Fault),
        (status = 406, description = "No such format yet.", body = described::Fault),
        Refused,
    ),
)]
pub(crate) async fn follow(
    State(runner): State<Runner>,
    owned: Owned,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let projection = Projection::asked(&headers)?;
    let after = match query.after {
        Some(after) => after,
        None => last_event(&headers)?,
    };
    let Owned { row, progress } = owned;
    let directory = runner.office.shelf.of(&row.id);
    let follower = Follower::open(&directory, progress, projection, after);
    let follower = follower.map_err(|err| no_log(&row.id, err))?;
    Ok(answer(&row.id, projection, follower))
}

/// What an `EventSource` sends when it comes back.
fn last_event(headers: &HeaderMap) -> Result<u64, Fault> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(0) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| {
        Fault::new(Code::InvalidArgument, "`Last-Event-ID` is not the number of an entry")
    })
}

async fn body(request: Request) -> Result<Bytes, Fault> {
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
