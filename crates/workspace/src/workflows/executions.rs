//! The routes of executions.
//!
//! An execution is detached from the request that started it, except for one
//! thing: the caller that streams it and hangs up ends it, unless it said
//! `"onDisconnect": "continue"`. Whoever follows it later may come and go.

mod view;

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use store::{ExecutionRow, ExecutionState, Shelf};
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::{
    Code,
    workspace::{ExecutionId, FileId, ResourceId, ResourceKind},
};

use super::{check::check, engine, follow::Follower, graph::Graph};
use crate::{
    bag::{self, FileView, Place},
    body::{self, Path, Query},
    clock,
    member::Owner,
    page::{Page, PageQuery},
    problem::{Problem, ProblemBody},
    resources,
    state::Workspace,
};

use view::{After, Execute, Execution, HangUp, Listing, StartedExecution, WholeExecution};

/// Largest input, as JSON.
const INPUT_LIMIT: usize = 1 << 20;
/// How long a cancel waits for the end of what it cancels.
const PATIENCE: Duration = Duration::from_secs(10);

/// Executions.
pub(super) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new()
        .routes(routes!(execute_workflow))
        .routes(routes!(list_executions))
        .routes(routes!(get_execution))
        .routes(routes!(follow_execution))
        .routes(routes!(cancel_execution))
        .routes(routes!(list_execution_files))
        .routes(routes!(execution_file_content))
}

/// Execute a workflow
///
/// The answer is the stream of the execution; with `Accept: application/json` it
/// is started and its name is answered.
#[utoipa::path(
    post, path = "/api/workspace/workflows/{id}/execute", tag = "workflows",
    params(("id" = String, Path, description = "The workflow's id.")),
    request_body = Execute,
    security(("api_key" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "The stream: one JSON object a line.", body = String, content_type = "application/x-ndjson"),
        (status = 202, description = "It was started.", body = StartedExecution),
        (status = 400, description = "The body or the workflow is wrong.", body = ProblemBody),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 403, description = "A sandbox may not.", body = ProblemBody),
        (status = 404, description = "There is no such workflow.", body = ProblemBody),
        (status = 413, description = "The body is too large.", body = ProblemBody),
        (status = 415, description = "The body is not JSON.", body = ProblemBody),
    ),
)]
async fn execute_workflow(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    headers: HeaderMap,
    body::Json(execute): body::Json<Execute>,
) -> Result<Response, Problem> {
    let (workflow, graph) = resources::load::<Graph>(&workspace, &owner, &id).await?;
    if execute.input.to_string().len() > INPUT_LIMIT {
        let message = format!("an input is at most {INPUT_LIMIT} bytes of JSON");
        return Err(Problem::bad_field("input", message));
    }
    // It was checked when it was stored; a later version may be stricter.
    let plan = check(&graph)?;
    let row = ExecutionRow {
        id: ExecutionId::from_random(rand::random()),
        workspace: owner.clone(),
        workflow_id: workflow.id,
        workflow: workflow.body,
        input: execute.input,
        state: ExecutionState::Running,
        outputs: None,
        code: None,
        error: None,
        started_at: clock::now(),
        ended_at: None,
    };
    // A task of its own: a caller that goes away in between leaves no row behind
    // that nobody carries out. Its answer is dropped then, which is a hang-up.
    let tasks = workspace.tasks.clone();
    let beginning = tasks.spawn(async move {
        let (id, workflow_id) = (row.id.clone(), row.workflow_id.clone());
        let live = engine::begin(&workspace, row, plan).await?;
        if wants_json(&headers) {
            let started = StartedExecution {
                stream_url: format!("/api/workspace/executions/{id}/stream"),
                execution_id: id.to_string(),
                workflow_id: workflow_id.to_string(),
                state: ExecutionState::Running.name(),
            };
            return Ok((StatusCode::ACCEPTED, Json(started)).into_response());
        }
        let follower = Follower::new(&workspace, &owner, &id, 0);
        let follower = match execute.on_disconnect {
            HangUp::Cancel => follower.for_caller(live.cancel),
            HangUp::Continue => follower,
        };
        Ok(follower.answer())
    });
    beginning.await.unwrap_or_else(|panic| {
        let message = "the execution could not be started";
        Err(Problem::new(Code::Internal, message).caused_by(panic))
    })
}

/// List executions, the newest first
#[utoipa::path(
    get, path = "/api/workspace/executions", tag = "workflows", params(Listing),
    security(("api_key" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "A page, newest first.", body = Page<Execution>),
        (status = 400, description = "The page is wrong.", body = ProblemBody),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 403, description = "A sandbox may not.", body = ProblemBody),
    ),
)]
async fn list_executions(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Query(listing): Query<Listing>,
) -> Result<Json<Page<Execution>>, Problem> {
    let Listing { workflow_id, limit, cursor } = listing;
    let workflow = workflow_id.map(|id| ResourceId::parse(ResourceKind::Workflow, &id));
    let workflow =
        workflow.transpose().map_err(|err| Problem::bad_field("workflowId", err.to_string()))?;
    let limit = PageQuery { limit, cursor: None }.limit()?;
    let before = cursor.as_deref().map(read_cursor).transpose()?;
    let before = before.as_ref().map(|(time, id)| (*time, id));
    let rows =
        workspace.store.list_executions(&owner, workflow.as_ref(), before, limit + 1).await?;
    let page =
        Page::cut(rows, limit, |row| format!("{}-{}", row.started_at.timestamp_millis(), row.id));
    let items = page.items.into_iter().map(Execution::from).collect();
    Ok(Json(Page { items, next_cursor: page.next_cursor }))
}

/// Look at an execution
#[utoipa::path(
    get, path = "/api/workspace/executions/{id}", tag = "workflows",
    params(("id" = String, Path, description = "Its id.")),
    security(("api_key" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "It, with what it was given.", body = WholeExecution),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 403, description = "A sandbox may not.", body = ProblemBody),
        (status = 404, description = "There is none.", body = ProblemBody),
    ),
)]
async fn get_execution(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<Json<WholeExecution>, Problem> {
    find(&workspace, &owner, &id).await.map(|row| Json(row.into()))
}

/// Follow an execution
///
/// Its lines behind the first `after`, then those that come. A reader that
/// hangs up means nothing to the execution.
#[utoipa::path(
    get, path = "/api/workspace/executions/{id}/stream", tag = "workflows",
    params(("id" = String, Path, description = "Its id."), After),
    security(("api_key" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "One JSON object a line.", body = String, content_type = "application/x-ndjson"),
        (status = 400, description = "`after` is wrong.", body = ProblemBody),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 403, description = "A sandbox may not.", body = ProblemBody),
        (status = 404, description = "There is none.", body = ProblemBody),
    ),
)]
async fn follow_execution(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    Query(After { after }): Query<After>,
) -> Result<Response, Problem> {
    let row = find(&workspace, &owner, &id).await?;
    // The store counts no further than this.
    let after = after.unwrap_or_default().min(i64::MAX.unsigned_abs());
    Ok(Follower::new(&workspace, &owner, &row.id, after).answer())
}

/// Cancel an execution
///
/// Its sandbox is told at once. One that has ended is left as it is.
#[utoipa::path(
    post, path = "/api/workspace/executions/{id}/cancel", tag = "workflows",
    params(("id" = String, Path, description = "Its id.")),
    security(("api_key" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "It, ended or about to.", body = WholeExecution),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 403, description = "A sandbox may not.", body = ProblemBody),
        (status = 404, description = "There is none.", body = ProblemBody),
    ),
)]
async fn cancel_execution(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<Json<WholeExecution>, Problem> {
    let row = find(&workspace, &owner, &id).await?;
    let Some(mut live) = workspace.executions.get(&row.id) else {
        return find(&workspace, &owner, &id).await.map(|row| Json(row.into()));
    };
    live.cancel.cancel();
    // A server that stops, or waits for its database, answers as things are.
    let _ = tokio::time::timeout(PATIENCE, live.progress.wait_for(|now| now.ended)).await;
    find(&workspace, &owner, &id).await.map(|row| Json(row.into()))
}

/// List what agents wrote back
#[utoipa::path(
    get, path = "/api/workspace/executions/{id}/files", tag = "workflows",
    params(("id" = String, Path, description = "The execution's id."), PageQuery),
    security(("api_key" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "A page, oldest first.", body = Page<FileView>),
        (status = 400, description = "The page is wrong.", body = ProblemBody),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 403, description = "A sandbox may not.", body = ProblemBody),
        (status = 404, description = "There is no such execution.", body = ProblemBody),
    ),
)]
async fn list_execution_files(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<FileView>>, Problem> {
    let row = find(&workspace, &owner, &id).await?;
    let place = Place::Bag(row.id.to_string());
    bag::list(&workspace, &owner, &place, &query).await.map(Json)
}

/// Fetch what an agent wrote back
#[utoipa::path(
    get, path = "/api/workspace/executions/{id}/files/{file}/content", tag = "workflows",
    params(
        ("id" = String, Path, description = "The execution's id."),
        ("file" = String, Path, description = "The file's id."),
    ),
    security(("api_key" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "The content.", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "The part of it that was asked for.", body = Vec<u8>, content_type = "*/*"),
        (status = 304, description = "The client has it already."),
        (status = 401, description = "No valid key.", body = ProblemBody),
        (status = 403, description = "A sandbox may not.", body = ProblemBody),
        (status = 404, description = "There is none.", body = ProblemBody),
        (status = 416, description = "The range is past its end.", body = ProblemBody),
    ),
)]
async fn execution_file_content(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path((id, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let row = find(&workspace, &owner, &id).await?;
    let missing = || Problem::not_found("file", &file);
    let file_id = FileId::parse(&file).map_err(|_| missing())?;
    let bag = Shelf::Bag(row.id.as_str());
    let found = workspace.store.file(&owner, bag, &file_id).await?.ok_or_else(missing)?;
    bag::content_answer(&workspace, &found, &headers).await
}

/// The execution, if it is the owner's.
async fn find(workspace: &Workspace, owner: &str, id: &str) -> Result<ExecutionRow, Problem> {
    let missing = || Problem::not_found("execution", id);
    let parsed = ExecutionId::parse(id).map_err(|_| missing())?;
    workspace.store.execution(owner, &parsed).await?.ok_or_else(missing)
}

fn read_cursor(text: &str) -> Result<(DateTime<Utc>, ExecutionId), Problem> {
    let parts = text.split_once('-').and_then(|(time, id)| {
        let time = DateTime::from_timestamp_millis(time.parse().ok()?)?;
        Some((time, ExecutionId::parse(id).ok()?))
    });
    parts.ok_or_else(|| Problem::bad_field("cursor", "cursor is none that this list gave"))
}

/// The stream is the usual answer; JSON is for whoever says so.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted
        .flat_map(|value| value.split(','))
        .map(|one| one.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    // Whoever names it first wants it most; weights are beside the point here.
    types.next().is_some_and(|first| first == "application/json")
}
