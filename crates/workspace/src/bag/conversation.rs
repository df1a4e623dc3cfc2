//! `/api/assistant/conversations/{id}/files`: the bag of a conversation.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use store::{FileRow, FileSource};
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::workspace::{ChatId, FileId};

use super::{
    FileForm, FileView, Place, Target, USER, UploadedFiles, content_answer, list, receive_form,
    receive_raw,
};
use crate::{
    body::{Path, Query},
    clock, files,
    member::Owner,
    page::{Page, PageQuery},
    problem::{Problem, ProblemBody},
    state::Workspace,
};

pub(super) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new()
        .routes(routes!(upload_bag_files, list_bag_files))
        .routes(routes!(get_bag_file, put_bag_file, delete_bag_file))
        .routes(routes!(get_bag_file_content))
        .routes(routes!(promote_bag_file))
}

/// Stores the files of a form: every part is named `file` and has a file name.
/// All of them are stored or none. A name that is taken gets a number:
/// `report-1.pdf`.
#[utoipa::path(
    post,
    path = "/api/assistant/conversations/{id}/files",
    tag = "bags",
    params(("id" = String, Path, description = "The conversation")),
    request_body(content = FileForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, description = "What was stored", body = UploadedFiles),
        (status = 400, description = "The form cannot be read", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such conversation", body = ProblemBody),
        (status = 413, description = "More than a file or a bag may hold", body = ProblemBody),
        (status = 415, description = "It is no form", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody),
        (status = 507, description = "The disk is full", body = ProblemBody),
    )
)]
async fn upload_bag_files(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<UploadedFiles>), Problem> {
    let target = target(&workspace, owner, &id).await?;
    let stored = receive_form(&workspace, target, &headers, body).await?;
    Ok((StatusCode::CREATED, Json(stored.into())))
}

/// Stores the body as one file of that name: `curl -T report.pdf …/files/`.
#[utoipa::path(
    put,
    path = "/api/assistant/conversations/{id}/files/{file}",
    tag = "bags",
    params(
        ("id" = String, Path, description = "The conversation"),
        ("file" = String, Path, description = "What the file is called"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "What was stored", body = FileView),
        (status = 400, description = "The body broke off", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such conversation", body = ProblemBody),
        (status = 413, description = "More than a file or a bag may hold", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody),
        (status = 507, description = "The disk is full", body = ProblemBody),
    )
)]
async fn put_bag_file(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<FileView>), Problem> {
    let target = target(&workspace, owner, &id).await?;
    let stored = receive_raw(&workspace, target, &name, &headers, body).await?;
    Ok((StatusCode::CREATED, Json(stored.into())))
}

/// The files of a conversation, the oldest first.
#[utoipa::path(
    get,
    path = "/api/assistant/conversations/{id}/files",
    tag = "bags",
    params(("id" = String, Path, description = "The conversation"), PageQuery),
    responses(
        (status = 200, description = "One page", body = Page<FileView>),
        (status = 400, description = "The query is not valid", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such conversation", body = ProblemBody),
    )
)]
async fn list_bag_files(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<FileView>>, Problem> {
    let place = Place::Bag(conversation(&workspace, &owner, &id).await?.to_string());
    list(&workspace, &owner, &place, &query).await.map(Json)
}

/// One file of a conversation.
#[utoipa::path(
    get,
    path = "/api/assistant/conversations/{id}/files/{file}",
    tag = "bags",
    params(
        ("id" = String, Path, description = "The conversation"),
        ("file" = String, Path, description = "The file"),
    ),
    responses(
        (status = 200, description = "The file", body = FileView),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such file", body = ProblemBody),
    )
)]
async fn get_bag_file(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path((id, file)): Path<(String, String)>,
) -> Result<Json<FileView>, Problem> {
    let row = bag_file(&workspace, &owner, &id, &file).await?;
    Ok(Json(row.into()))
}

/// The content of a file; one `Range` and `If-None-Match` are understood.
#[utoipa::path(
    get,
    path = "/api/assistant/conversations/{id}/files/{file}/content",
    tag = "bags",
    params(
        ("id" = String, Path, description = "The conversation"),
        ("file" = String, Path, description = "The file"),
    ),
    responses(
        (status = 200, description = "The content", content_type = "*/*"),
        (status = 206, description = "A part", content_type = "*/*"),
        (status = 304, description = "The client has it already"),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such file", body = ProblemBody),
        (status = 416, description = "The part is past the end", body = ProblemBody),
    )
)]
async fn get_bag_file_content(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path((id, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let row = bag_file(&workspace, &owner, &id, &file).await?;
    content_answer(&workspace, &row, &headers).await
}

/// Takes a file out of the bag. Its name stays taken and its content is kept.
#[utoipa::path(
    delete,
    path = "/api/assistant/conversations/{id}/files/{file}",
    tag = "bags",
    params(
        ("id" = String, Path, description = "The conversation"),
        ("file" = String, Path, description = "The file"),
    ),
    responses(
        (status = 204, description = "It is gone"),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such file", body = ProblemBody),
    )
)]
async fn delete_bag_file(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path((id, file)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let row = bag_file(&workspace, &owner, &id, &file).await?;
    let place = Place::Bag(id);
    if workspace.store.delete_file(&owner, place.shelf(), &row.id, clock::now()).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("file", &file))
    }
}

/// Copies a file into the workspace's own, where it outlives the conversation.
#[utoipa::path(
    post,
    path = "/api/assistant/conversations/{id}/files/{file}/promote",
    tag = "bags",
    params(
        ("id" = String, Path, description = "The conversation"),
        ("file" = String, Path, description = "The file"),
    ),
    responses(
        (status = 201, description = "The file of the workspace", body = FileView),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such file", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody),
        (status = 507, description = "The disk is full", body = ProblemBody),
    )
)]
async fn promote_bag_file(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path((id, file)): Path<(String, String)>,
) -> Result<(StatusCode, Json<FileView>), Problem> {
    let row = bag_file(&workspace, &owner, &id, &file).await?;
    let promoted = files::promote(&workspace, row).await?;
    Ok((StatusCode::CREATED, Json(promoted.into())))
}

/// A conversation of the workspace that is not deleted.
async fn conversation(workspace: &Workspace, owner: &str, id: &str) -> Result<ChatId, Problem> {
    let nothing = || Problem::not_found("conversation", id);
    let chat = ChatId::parse(id).map_err(|_| nothing())?;
    workspace.store.conversation(owner, &chat).await?.ok_or_else(nothing)?;
    Ok(chat)
}

async fn target(workspace: &Workspace, owner: String, id: &str) -> Result<Target, Problem> {
    let chat = conversation(workspace, &owner, id).await?;
    let place = Place::Bag(chat.to_string());
    Ok(Target { workspace: owner, place, source: FileSource::User, limits: USER })
}

async fn bag_file(
    workspace: &Workspace,
    owner: &str,
    id: &str,
    file: &str,
) -> Result<FileRow, Problem> {
    let chat = conversation(workspace, owner, id).await?;
    let nothing = || Problem::not_found("file", file);
    let file_id = FileId::parse(file).map_err(|_| nothing())?;
    let place = Place::Bag(chat.to_string());
    workspace.store.file(owner, place.shelf(), &file_id).await?.ok_or_else(nothing)
}
