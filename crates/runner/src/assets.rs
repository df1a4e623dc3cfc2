//! `/runs/{id}/assets`: the files of a run whose caller has no workspace.

use axum::{
    Json,
    body::Body,
    extract::{Path, State},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use http_kit::Fault;
use wire::Code;

use crate::{
    caller::Owned,
    described::{NoRun, Refused},
    link::Kept,
    look::chunks,
    office::Runner,
};

/// The files that a run left, when its caller has no workspace.
#[utoipa::path(
    get,
    path = "/runs/{id}/assets",
    operation_id = "list_run_assets",
    tag = "runs",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "The files.", body = Kept), NoRun, Refused),
)]
pub(crate) async fn list(State(runner): State<Runner>, owned: Owned) -> Result<Json<Kept>, Fault> {
    let directory = runner.office.shelf.of(&owned.row.id);
    Kept::read(&directory).await.map(Json).map_err(unreadable)
}

/// One of the files that a run left.
#[utoipa::path(
    get,
    path = "/runs/{id}/assets/{file}",
    operation_id = "get_run_asset",
    tag = "runs",
    params(
        ("id" = String, Path, description = "The run."),
        ("file" = String, Path, description = "The `id` of the file in the list."),
    ),
    responses(
        (
            status = 200,
            description = "Its bytes.",
            body = Vec<u8>,
            content_type = "application/octet-stream",
        ),
        NoRun,
        Refused,
    ),
)]
pub(crate) async fn file(
    State(runner): State<Runner>,
    owned: Owned,
    Path((_run, id)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let directory = runner.office.shelf.of(&owned.row.id);
    let kept = Kept::read(&directory).await.map_err(unreadable)?;
    let missing = || Fault::new(Code::NotFound, format!("the run has no file `{id}`"));
    let (file, path) = kept.path(&directory, &id).ok_or_else(missing)?;
    let content = tokio::fs::File::open(path).await.map_err(unreadable)?;
    let mut response = Body::from_stream(chunks(content, file.size)).into_response();
    let headers = response.headers_mut();
    // A page made by an agent must not run as one of ours.
    let bytes = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, bytes);
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    let nosniff = HeaderName::from_static("x-content-type-options");
    headers.insert(nosniff, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(file.size));
    Ok(response)
}

fn unreadable(err: std::io::Error) -> Fault {
    Fault::new(Code::Internal, "the files of the run cannot be read").caused_by(err)
}
