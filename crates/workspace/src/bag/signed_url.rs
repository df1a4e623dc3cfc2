//! The bag as a zip behind a signed address: an agent fetches it before it has
//! any token left, so the address itself is what it may do, for a short time.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use chrono::SubsecRound;
use futures_util::TryStreamExt;
use http_kit::chain;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{FileRow, Shelf, StoreError};
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::workspace::{ChatId, ExecutionId};

use super::{naming::ZipNames, zip};
use crate::{
    body::{Path, Query},
    clock,
    problem::{Problem, ProblemBody},
    signature::Signed,
    state::Workspace,
    tokens::delta,
};

/// How many rows are read at once.
const ROWS: u32 = 500;

pub(super) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new().routes(routes!(bag_zip))
}

/// The `assets` of `GET config`: where the zip is, until when, and what is in
/// it. Nothing for an empty bag.
pub(crate) async fn project(
    workspace: &Workspace,
    scope: &str,
    owner: &str,
) -> Result<Option<Value>, Problem> {
    let files = all_files(workspace, owner, scope).await?;
    if files.is_empty() {
        return Ok(None);
    }
    let expires_at = (clock::now() + delta(workspace.settings.bag_url_ttl)).trunc_subsecs(0);
    let query = workspace.keyring.sign(&subject(owner, scope), expires_at);
    let base = &workspace.settings.base_url;
    let whose = utf8_percent_encode(owner, NON_ALPHANUMERIC);
    let mut names = ZipNames::default();
    let files: Vec<Value> = files
        .iter()
        .map(|file| {
            json!({
                "id": file.id,
                "name": names.take(&file.name),
                "mimeType": file.mime_type,
                "size": file.size,
                "sha256": file.sha256,
            })
        })
        .collect();
    Ok(Some(json!({
        "url": format!("{base}/api/assistant/bags/{scope}.zip?workspace={whose}&{query}"),
        "expires_at": expires_at,
        "files": files,
    })))
}

/// Whose bag it is; the signature covers it.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Whose {
    /// The workspace.
    workspace: String,
}

/// All files of a bag as one zip, made while it is sent.
#[utoipa::path(
    get,
    path = "/api/assistant/bags/{file}",
    tag = "bags",
    params(
        ("file" = String, Path, description = "The conversation or execution, and `.zip`"),
        Whose,
        Signed,
    ),
    security(("signature" = [])),
    responses(
        (status = 200, description = "The zip", content_type = "application/zip"),
        (status = 400, description = "The query is not one that was signed", body = ProblemBody),
        (status = 403, description = "The address is not signed, or expired", body = ProblemBody),
        (status = 404, description = "There is no such bag", body = ProblemBody),
    )
)]
pub(super) async fn bag_zip(
    State(workspace): State<Workspace>,
    Path(file): Path<String>,
    Query(whose): Query<Whose>,
    Query(signed): Query<Signed>,
) -> Result<Response, Problem> {
    let owner = &whose.workspace;
    let scope = file.strip_suffix(".zip").unwrap_or_default();
    let chat = ChatId::parse(scope).ok();
    let nothing = || Problem::not_found("bag", &file);
    if chat.is_none() && ExecutionId::parse(scope).is_err() {
        return Err(nothing());
    }
    workspace.check_signature(&subject(owner, scope), &signed)?;
    if let Some(chat) = chat {
        workspace.store.conversation(owner, &chat).await?.ok_or_else(nothing)?;
    }
    let files = all_files(&workspace, owner, scope).await?;
    let scope = scope.to_owned();
    let packed = zip::pack(workspace.blobs.clone(), files).inspect_err(move |err| {
        // The status is out already: the body breaks off, and this says why.
        tracing::error!(bag = scope, cause = %chain(err), "the zip of a bag broke off");
    });
    let mut response = Body::from_stream(packed).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    Ok(response)
}

/// What is signed: the path, and whose bag it is.
fn subject(owner: &str, scope: &str) -> String {
    format!("/api/assistant/bags/{scope}.zip\n{owner}")
}

async fn all_files(
    workspace: &Workspace,
    owner: &str,
    scope: &str,
) -> Result<Vec<FileRow>, StoreError> {
    let mut files: Vec<FileRow> = Vec::new();
    loop {
        let after = files.last().map(|file| file.id.clone());
        let shelf = Shelf::Bag(scope);
        let page = workspace.store.list_files(owner, shelf, after.as_ref(), ROWS).await?;
        let last = page.len() < usize::try_from(ROWS).unwrap_or(usize::MAX);
        files.extend(page);
        if last {
            return Ok(files);
        }
    }
}
