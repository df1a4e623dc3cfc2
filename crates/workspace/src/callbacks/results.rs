//! `POST {agent_url}/results` and `POST {agent_url}/assets/writeback`: the files
//! that a run leaves, against its upload token, all of them or none.

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use serde::Serialize;
use store::{FileRow, FileSource, OtpKind};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    bag::{FileForm, Place, Target, WRITEBACK, receive_form},
    body::Path,
    problem::{Problem, ProblemBody},
    state::Workspace,
};

/// Both addresses; they do the same.
pub(super) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new().routes(routes!(results)).routes(routes!(writeback))
}

/// What was stored.
#[derive(Serialize, ToSchema)]
pub(super) struct WrittenBack {
    /// The files, in the order in which they came.
    files: Vec<WrittenFile>,
}

/// A file that was written back.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenFile {
    /// Its name in the API.
    id: String,
    /// What it is called in the bag.
    name: String,
    /// What it holds, by its content.
    mime_type: String,
    /// Its size in bytes.
    size: u64,
    /// SHA-256 of its content, in hex.
    sha256: String,
    /// Where its content is kept.
    storage_key: String,
}

/// A form with a part named `file` for each file; 20 files, 25 MiB each and
/// 50 MiB together at most.
#[utoipa::path(
    post,
    path = "/{session_id}/results",
    tag = "callbacks",
    params(("session_id" = String, Path, description = "The session of the dispatch")),
    request_body(content = FileForm, content_type = "multipart/form-data"),
    security(("otp" = [])),
    responses(
        (status = 200, description = "What was stored", body = WrittenBack),
        (status = 400, description = "The form cannot be read", body = ProblemBody),
        (status = 401, description = "The token is unknown, used or late", body = ProblemBody),
        (status = 404, description = "The conversation was deleted", body = ProblemBody),
        (status = 413, description = "Too many files or bytes", body = ProblemBody),
        (status = 415, description = "It is no form", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody),
        (status = 507, description = "The disk is full", body = ProblemBody),
    )
)]
pub(super) async fn results(
    State(workspace): State<Workspace>,
    Path(session): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WrittenBack>, Problem> {
    store(&workspace, &session, &headers, body).await
}

/// The same as `results`, by its other name.
#[utoipa::path(
    post,
    path = "/{session_id}/assets/writeback",
    tag = "callbacks",
    params(("session_id" = String, Path, description = "The session of the dispatch")),
    request_body(content = FileForm, content_type = "multipart/form-data"),
    security(("otp" = [])),
    responses(
        (status = 200, description = "What was stored", body = WrittenBack),
        (status = 400, description = "The form cannot be read", body = ProblemBody),
        (status = 401, description = "The token is unknown, used or late", body = ProblemBody),
        (status = 404, description = "The conversation was deleted", body = ProblemBody),
        (status = 413, description = "Too many files or bytes", body = ProblemBody),
        (status = 415, description = "It is no form", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody),
        (status = 507, description = "The disk is full", body = ProblemBody),
    )
)]
pub(super) async fn writeback(
    State(workspace): State<Workspace>,
    Path(session): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WrittenBack>, Problem> {
    store(&workspace, &session, &headers, body).await
}

async fn store(
    workspace: &Workspace,
    session: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Json<WrittenBack>, Problem> {
    let session = workspace.redeem(session, OtpKind::Upload, headers).await?;
    let target = Target {
        workspace: session.workspace,
        place: Place::Bag(session.scope),
        source: FileSource::Sandbox,
        limits: WRITEBACK,
    };
    let stored = receive_form(workspace, target, headers, body).await?;
    Ok(Json(WrittenBack { files: stored.into_iter().map(WrittenFile::new).collect() }))
}

impl WrittenFile {
    fn new(row: FileRow) -> WrittenFile {
        WrittenFile {
            id: row.id.to_string(),
            name: row.name,
            mime_type: row.mime_type,
            size: row.size,
            sha256: row.sha256,
            storage_key: row.storage_key,
        }
    }
}
