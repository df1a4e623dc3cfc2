//! `/runs/{id}`: what it is, its files, and its end on demand.

use axum::{
    Json,
    body::Body,
    extract::{Path, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::{Stream, stream};
use http_kit::Fault;
use tokio::io::AsyncReadExt;
use wire::Code;

use crate::{
    archive::{RESULT_FILE, STEPS_FILE},
    caller::Owned,
    described::{self, NoRun, Refused},
    fault,
    info::RunInfo,
    log::{LOG_FILE, Life},
    office::Runner,
    run::Order,
};

/// Bytes of a file that are sent at once.
const CHUNK: usize = 64 << 10;

/// A run, as it is now.
#[utoipa::path(
    get,
    path = "/runs/{id}",
    operation_id = "get_run",
    tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "The run.", body = RunInfo), NoRun, Refused),
)]
pub(crate) async fn info(owned: Owned) -> Json<RunInfo> {
    let progress = *owned.progress.borrow();
    Json(RunInfo::new(owned.row, Some(progress)))
}

/// Ends a run, and returns when nothing of it is left but its log.
///
/// A run that has ended stays as it ended.
#[utoipa::path(
    post,
    path = "/runs/{id}/cancel",
    operation_id = "cancel_run",
    tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "The run, ended.", body = RunInfo), NoRun, Refused),
)]
pub(crate) async fn cancel(
    State(runner): State<Runner>,
    owned: Owned,
) -> Result<Json<RunInfo>, Fault> {
    let id = owned.row.id;
    if let Some(run) = runner.office.get(&id) {
        run.ask(Order::Cancel("the run was cancelled"));
        run.settled().await;
    }
    let row = runner.office.store.run(&id).await.map_err(fault::of_store)?;
    let row = row.ok_or_else(|| Fault::new(Code::NotFound, format!("run `{id}` was not found")))?;
    Ok(Json(RunInfo::new(row, None)))
}

/// The log as far as it is, or what was made of it at the end.
#[utoipa::path(
    get,
    path = "/runs/{id}/files/{name}",
    operation_id = "get_run_file",
    tag = "runs",
    params(
        ("id" = String, Path, description = "The run."),
        ("name" = String, Path, description = "`stream.jsonl`, `steps.json` or `result.json`."),
    ),
    responses(
        (
            status = 200,
            description = "`stream.jsonl` is the raw log, the others are JSON.",
            content(
                (String = "application/vnd.mayfly.run+ndjson"),
                (serde_json::Value = "application/json"),
            ),
        ),
        (status = 400, description = "It is made when the run has ended.", body = described::Fault),
        (status = 404, description = "No such run or file.", body = described::Fault),
        Refused,
    ),
)]
pub(crate) async fn file(
    State(runner): State<Runner>,
    owned: Owned,
    Path((_run, name)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let progress = *owned.progress.borrow();
    let (content_type, length) = match name.as_str() {
        LOG_FILE => ("application/vnd.mayfly.run+ndjson", Some(progress.length)),
        STEPS_FILE | RESULT_FILE if progress.life == Life::Going => {
            let message = format!("`{name}` is made when the run has ended");
            return Err(Fault::new(Code::FailedPrecondition, message));
        }
        STEPS_FILE | RESULT_FILE => ("application/json", None),
        _ => {
            let message = format!(
                "there is no `{name}`: a run has `{LOG_FILE}`, `{STEPS_FILE}` and `{RESULT_FILE}`"
            );
            return Err(Fault::new(Code::NotFound, message));
        }
    };
    let missing = || Fault::new(Code::NotFound, format!("`{name}` is not kept any more"));
    let path = runner.office.shelf.of(&owned.row.id).join(&name);
    let file = tokio::fs::File::open(path).await.map_err(|_| missing())?;
    let length = match length {
        Some(length) => length,
        None => file.metadata().await.map_err(|_| missing())?.len(),
    };
    let mut response = Body::from_stream(chunks(file, length)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok(response)
}

/// The first `length` bytes of a file, a piece at a time.
pub(crate) fn chunks(
    file: tokio::fs::File,
    length: u64,
) -> impl Stream<Item = std::io::Result<Vec<u8>>> {
    stream::try_unfold(file.take(length), |mut file| async move {
        let mut chunk = Vec::with_capacity(CHUNK);
        let read = file.read_buf(&mut chunk).await?;
        Ok((read > 0).then_some((chunk, file)))
    })
}
