//! `/api/assistant/turns/{id}`: what a turn is, its trace, and its end on demand.

use axum::{Json, extract::State};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use store::TurnRow;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::workspace::TurnId;

use super::live::Stop;
use crate::{
    body::{Path, Query},
    member::Owner,
    page::{Page, PageQuery},
    problem::{Problem, ProblemBody},
    state::Workspace,
};

pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new()
        .routes(routes!(get_turn))
        .routes(routes!(cancel_turn))
        .routes(routes!(get_turn_trace))
}

/// A turn.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnInfo {
    /// Its id.
    id: String,
    /// Its conversation.
    conversation_id: String,
    /// The user's message.
    message_id: String,
    /// How far it is: `running`, `succeeded` or `failed`.
    state: &'static str,
    /// What it means when nobody listens any more.
    on_disconnect: &'static str,
    /// The runner's name for it.
    run_id: Option<String>,
    /// Why it failed, for programs.
    code: Option<String>,
    /// Why it failed, for people.
    error: Option<String>,
    /// When it began.
    started_at: DateTime<Utc>,
    /// When it ended.
    ended_at: Option<DateTime<Utc>>,
}

/// One event of a turn.
#[derive(Debug, Serialize, ToSchema)]
struct TraceEntry {
    /// Its number.
    seq: u64,
    /// What it is: the name of the event on the stream, or `log`.
    kind: String,
    /// What it says.
    #[schema(value_type = Object)]
    data: Value,
}

/// A turn, running or ended.
#[utoipa::path(
    get,
    path = "/api/assistant/turns/{id}",
    tag = "assistant",
    params(("id" = String, Path, description = "The turn")),
    responses(
        (status = 200, description = "The turn", body = TurnInfo),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such turn", body = ProblemBody),
    )
)]
async fn get_turn(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<Json<TurnInfo>, Problem> {
    Ok(Json(owned(&workspace, &owner, &id).await?.into()))
}

/// Ends a turn and its run; answers when the end is stored. One that has ended
/// stays as it ended.
#[utoipa::path(
    post,
    path = "/api/assistant/turns/{id}/cancel",
    tag = "assistant",
    params(("id" = String, Path, description = "The turn")),
    responses(
        (status = 200, description = "The turn", body = TurnInfo),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such turn", body = ProblemBody),
    )
)]
async fn cancel_turn(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<Json<TurnInfo>, Problem> {
    let row = owned(&workspace, &owner, &id).await?;
    if let Some(live) = workspace.turns.get(&row.id) {
        live.stop(Stop::Cancelled).await;
    }
    Ok(Json(owned(&workspace, &owner, &id).await?.into()))
}

/// Everything that happened in a turn, logs included.
#[utoipa::path(
    get,
    path = "/api/assistant/turns/{id}/trace",
    tag = "assistant",
    params(("id" = String, Path, description = "The turn"), PageQuery),
    responses(
        (status = 200, description = "Events in order", body = Page<TraceEntry>),
        (status = 400, description = "The query cannot be read", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such turn", body = ProblemBody),
    )
)]
async fn get_turn_trace(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<TraceEntry>>, Problem> {
    let row = owned(&workspace, &owner, &id).await?;
    let limit = query.limit()?;
    let after = match &query.cursor {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .map_err(|_| Problem::bad_field("cursor", "cursor is not one that this list gave"))?,
    };
    let events = workspace.store.events_after(row.id.as_str(), after, limit + 1).await?;
    let entries = events.into_iter().map(|event| TraceEntry {
        seq: event.seq,
        kind: event.kind,
        data: serde_json::from_str(&event.data).unwrap_or(Value::Null),
    });
    Ok(Json(Page::cut(entries.collect(), limit, |entry| entry.seq.to_string())))
}

/// A turn of the workspace; one of another is as unknown as none.
async fn owned(workspace: &Workspace, owner: &str, id: &str) -> Result<TurnRow, Problem> {
    let unknown = || Problem::not_found("turn", id);
    let turn = TurnId::parse(id).map_err(|_| unknown())?;
    workspace.store.turn(owner, &turn).await?.ok_or_else(unknown)
}

impl From<TurnRow> for TurnInfo {
    fn from(row: TurnRow) -> TurnInfo {
        TurnInfo {
            id: row.id.to_string(),
            conversation_id: row.chat_id.to_string(),
            message_id: row.user_message_id.to_string(),
            state: row.state.name(),
            on_disconnect: row.on_disconnect.name(),
            run_id: row.run_id,
            code: row.code,
            error: row.error,
            started_at: row.started_at,
            ended_at: row.ended_at,
        }
    }
}
