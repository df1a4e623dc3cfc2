//! `/api/workspace/files`: files that belong to the workspace and to no
//! conversation. They come by upload, or out of a bag when somebody asks.

use std::io;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use bytes::Bytes;
use futures_util::Stream;
use store::{FileRow, FileSource};
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::{Code, workspace::FileId};

use crate::{
    bag::{
        FileForm, FileView, Intake, Place, Target, USER, UploadedFiles, content_answer, list,
        receive_form, receive_raw, unreadable,
    },
    body::{Path, Query},
    clock,
    member::Member,
    page::{Page, PageQuery},
    problem::{Problem, ProblemBody},
    state::Workspace,
};

/// The routes of the workspace's files.
pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new()
        .routes(routes!(upload_files, list_files))
        .routes(routes!(get_file, put_file, delete_file))
        .routes(routes!(get_file_content))
}

/// Copies a file of a bag into the workspace's own, under its name or one with
/// a number. The bag keeps its own.
pub(crate) async fn promote(workspace: &Workspace, file: FileRow) -> Result<FileRow, Problem> {
    let blob =
        workspace.blobs.get(&file.storage_key).await.map_err(|err| unreadable(&file, err))?;
    let target = target(file.workspace, file.source);
    keep(workspace, target, &file.name, blob.bytes).await
}

/// Stores the files of a form: every part is named `file` and has a file name.
/// All of them are stored or none. A name that is taken gets a number.
#[utoipa::path(
    post,
    path = "/api/workspace/files",
    tag = "files",
    request_body(content = FileForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, description = "What was stored", body = UploadedFiles),
        (status = 400, description = "The form cannot be read", body = ProblemBody),
        (status = 401, description = "Neither API key nor bearer", body = ProblemBody),
        (status = 413, description = "More than a request may bring", body = ProblemBody),
        (status = 415, description = "It is no form", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody),
        (status = 507, description = "The disk is full", body = ProblemBody),
    )
)]
async fn upload_files(
    State(workspace): State<Workspace>,
    member: Member,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<UploadedFiles>), Problem> {
    let stored = receive_form(&workspace, target_of(member), &headers, body).await?;
    Ok((StatusCode::CREATED, Json(stored.into())))
}

/// Stores the body as one file of that name: `curl -T report.pdf …/files/`.
#[utoipa::path(
    put,
    path = "/api/workspace/files/{id}",
    tag = "files",
    params(("id" = String, Path, description = "What the file is called")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "What was stored", body = FileView),
        (status = 400, description = "The body broke off", body = ProblemBody),
        (status = 401, description = "Neither API key nor bearer", body = ProblemBody),
        (status = 413, description = "More than a file may hold", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody),
        (status = 507, description = "The disk is full", body = ProblemBody),
    )
)]
async fn put_file(
    State(workspace): State<Workspace>,
    member: Member,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<FileView>), Problem> {
    let stored = receive_raw(&workspace, target_of(member), &name, &headers, body).await?;
    Ok((StatusCode::CREATED, Json(stored.into())))
}

/// The workspace's files, the oldest first.
#[utoipa::path(
    get,
    path = "/api/workspace/files",
    tag = "files",
    params(PageQuery),
    responses(
        (status = 200, description = "One page", body = Page<FileView>),
        (status = 400, description = "The query is not valid", body = ProblemBody),
        (status = 401, description = "Neither API key nor bearer", body = ProblemBody),
    )
)]
async fn list_files(
    State(workspace): State<Workspace>,
    member: Member,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<FileView>>, Problem> {
    list(&workspace, &member.workspace, &Place::Files, &query).await.map(Json)
}

/// One file.
#[utoipa::path(
    get,
    path = "/api/workspace/files/{id}",
    tag = "files",
    params(("id" = String, Path, description = "The file")),
    responses(
        (status = 200, description = "The file", body = FileView),
        (status = 401, description = "Neither API key nor bearer", body = ProblemBody),
        (status = 404, description = "There is no such file", body = ProblemBody),
    )
)]
async fn get_file(
    State(workspace): State<Workspace>,
    member: Member,
    Path(id): Path<String>,
) -> Result<Json<FileView>, Problem> {
    let row = file(&workspace, &member, &id).await?;
    Ok(Json(row.into()))
}

/// The content of a file; one `Range` and `If-None-Match` are understood.
#[utoipa::path(
    get,
    path = "/api/workspace/files/{id}/content",
    tag = "files",
    params(("id" = String, Path, description = "The file")),
    responses(
        (status = 200, description = "The content", content_type = "*/*"),
        (status = 206, description = "A part", content_type = "*/*"),
        (status = 304, description = "The client has it already"),
        (status = 401, description = "Neither API key nor bearer", body = ProblemBody),
        (status = 404, description = "There is no such file", body = ProblemBody),
        (status = 416, description = "The part is past the end", body = ProblemBody),
    )
)]
async fn get_file_content(
    State(workspace): State<Workspace>,
    member: Member,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let row = file(&workspace, &member, &id).await?;
    content_answer(&workspace, &row, &headers).await
}

/// Deletes a file. Its name stays taken and its content is kept.
#[utoipa::path(
    delete,
    path = "/api/workspace/files/{id}",
    tag = "files",
    params(("id" = String, Path, description = "The file")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 401, description = "Neither API key nor bearer", body = ProblemBody),
        (status = 404, description = "There is no such file", body = ProblemBody),
    )
)]
async fn delete_file(
    State(workspace): State<Workspace>,
    member: Member,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let row = file(&workspace, &member, &id).await?;
    let shelf = Place::Files;
    let now = clock::now();
    if workspace.store.delete_file(&member.workspace, shelf.shelf(), &row.id, now).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_found("file", &id))
    }
}

async fn file(workspace: &Workspace, member: &Member, id: &str) -> Result<FileRow, Problem> {
    let nothing = || Problem::not_found("file", id);
    let file_id = FileId::parse(id).map_err(|_| nothing())?;
    let found = workspace.store.file(&member.workspace, Place::Files.shelf(), &file_id).await?;
    found.ok_or_else(nothing)
}

fn target_of(member: Member) -> Target {
    let source = if member.session.is_some() { FileSource::Sandbox } else { FileSource::User };
    target(member.workspace, source)
}

fn target(workspace: String, source: FileSource) -> Target {
    Target { workspace, place: Place::Files, source, limits: USER }
}

/// Stores one file, whoever waits for it.
async fn keep(
    workspace: &Workspace,
    target: Target,
    name: &str,
    content: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Result<FileRow, Problem> {
    let (workspace, name) = (workspace.clone(), name.to_owned());
    let keeping = workspace.tasks.clone().spawn(async move {
        let mut intake = Intake::open(&workspace, target).await?;
        let added = intake.add(&name, content).await;
        intake.close(added).await
    });
    let failed = || Problem::new(Code::Internal, "the file could not be stored");
    let kept = keeping.await.map_err(|err| failed().caused_by(err))??;
    kept.into_iter().next().ok_or_else(failed)
}
