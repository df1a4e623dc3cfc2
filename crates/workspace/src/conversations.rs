//! `/api/assistant/conversations`: what was said, and with whom.

use axum::{Json as Answer, extract::State, http::StatusCode};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use store::ConversationRow;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::workspace::{ChatId, ResourceId, ResourceKind};

use crate::{
    body::{Json, Path, Query},
    clock,
    member::Owner,
    page::{Page, PageQuery},
    problem::{Problem, ProblemBody},
    state::Workspace,
    turn::{MessageInfo, Stop},
};

/// Longest title, in characters.
const TITLE_LIMIT: usize = 200;
/// The title of a conversation that nobody named.
const UNTITLED: &str = "New conversation";

pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new()
        .routes(routes!(create_conversation, list_conversations))
        .routes(routes!(get_conversation, update_conversation, delete_conversation))
        .routes(routes!(list_messages))
}

/// A conversation as it is made or changed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConversationInput {
    /// Its title: 1 to 200 characters.
    title: Option<String>,
    /// Who answers; the Assistant unless said.
    agent_id: Option<String>,
}

/// A conversation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ConversationInfo {
    /// Its id.
    id: String,
    /// Its title.
    title: String,
    /// Who answers; null is the Assistant.
    agent_id: Option<String>,
    /// When it was made.
    created_at: DateTime<Utc>,
    /// When something was said or changed last.
    updated_at: DateTime<Utc>,
}

/// Makes a conversation. A message without one makes one too.
#[utoipa::path(
    post,
    path = "/api/assistant/conversations",
    tag = "assistant",
    request_body = ConversationInput,
    responses(
        (status = 201, description = "The conversation", body = ConversationInfo),
        (status = 400, description = "A field is wrong", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
    )
)]
async fn create_conversation(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Json(input): Json<ConversationInput>,
) -> Result<(StatusCode, Answer<ConversationInfo>), Problem> {
    let (title, agent_id) = checked(&workspace, &owner, input).await?;
    let now = clock::now();
    let row = ConversationRow {
        id: ChatId::from_random(rand::random()),
        workspace: owner,
        title: title.unwrap_or_else(|| UNTITLED.to_owned()),
        agent_id,
        created_at: now,
        updated_at: now,
        deleted_at: None,
    };
    workspace.store.create_conversation(&row).await?;
    Ok((StatusCode::CREATED, Answer(row.into())))
}

/// The conversations, the one touched last first.
#[utoipa::path(
    get,
    path = "/api/assistant/conversations",
    tag = "assistant",
    params(PageQuery),
    responses(
        (status = 200, description = "A page of them", body = Page<ConversationInfo>),
        (status = 400, description = "The query cannot be read", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
    )
)]
async fn list_conversations(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Query(query): Query<PageQuery>,
) -> Result<Answer<Page<ConversationInfo>>, Problem> {
    let limit = query.limit()?;
    let before = query.cursor.as_deref().map(cursor).transpose()?;
    let before = before.as_ref().map(|(time, id)| (*time, id));
    let rows = workspace.store.list_conversations(&owner, before, limit + 1).await?;
    let infos = rows.into_iter().map(ConversationInfo::from).collect();
    Ok(Answer(Page::cut(infos, limit, |info: &ConversationInfo| {
        format!("{}_{}", info.updated_at.timestamp_millis(), info.id)
    })))
}

/// A conversation.
#[utoipa::path(
    get,
    path = "/api/assistant/conversations/{id}",
    tag = "assistant",
    params(("id" = String, Path, description = "The conversation")),
    responses(
        (status = 200, description = "The conversation", body = ConversationInfo),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such conversation", body = ProblemBody),
    )
)]
async fn get_conversation(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<Answer<ConversationInfo>, Problem> {
    Ok(Answer(owned(&workspace, &owner, &id).await?.into()))
}

/// Changes a conversation's title and agent. A title that is not said stays.
#[utoipa::path(
    put,
    path = "/api/assistant/conversations/{id}",
    tag = "assistant",
    params(("id" = String, Path, description = "The conversation")),
    request_body = ConversationInput,
    responses(
        (status = 200, description = "The conversation", body = ConversationInfo),
        (status = 400, description = "A field is wrong", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such conversation", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
    )
)]
async fn update_conversation(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    Json(input): Json<ConversationInput>,
) -> Result<Answer<ConversationInfo>, Problem> {
    let row = owned(&workspace, &owner, &id).await?;
    let (title, agent_id) = checked(&workspace, &owner, input).await?;
    let title = title.unwrap_or(row.title);
    workspace.store.update_conversation(&owner, &row.id, &title, agent_id.as_ref()).await?;
    Ok(Answer(owned(&workspace, &owner, &id).await?.into()))
}

/// Deletes a conversation with its files. A turn that runs is cancelled first.
#[utoipa::path(
    delete,
    path = "/api/assistant/conversations/{id}",
    tag = "assistant",
    params(("id" = String, Path, description = "The conversation")),
    responses(
        (status = 204, description = "It is deleted"),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such conversation", body = ProblemBody),
    )
)]
async fn delete_conversation(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let row = owned(&workspace, &owner, &id).await?;
    stop_turn(&workspace, &row.id).await;
    let deleted = workspace.store.delete_conversation(&owner, &row.id, clock::now()).await?;
    if !deleted {
        return Err(Problem::not_found("conversation", &id));
    }
    // One may have begun in between; none can any more.
    stop_turn(&workspace, &row.id).await;
    Ok(StatusCode::NO_CONTENT)
}

/// The messages of a conversation, oldest first; the first page is the newest.
#[utoipa::path(
    get,
    path = "/api/assistant/conversations/{id}/messages",
    tag = "assistant",
    params(("id" = String, Path, description = "The conversation"), PageQuery),
    responses(
        (status = 200, description = "A page of them", body = Page<MessageInfo>),
        (status = 400, description = "The query cannot be read", body = ProblemBody),
        (status = 401, description = "No API key", body = ProblemBody),
        (status = 404, description = "There is no such conversation", body = ProblemBody),
    )
)]
async fn list_messages(
    State(workspace): State<Workspace>,
    Owner(owner): Owner,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Answer<Page<MessageInfo>>, Problem> {
    let row = owned(&workspace, &owner, &id).await?;
    let limit = query.limit()?;
    let before = query.cursor.as_deref().map(str::parse::<i64>).transpose();
    let before = before.map_err(|_| bad_cursor())?;
    let mut rows = workspace.store.messages(&row.id, before, limit + 1).await?;
    // One more than wanted is the oldest, and says that there is a next page.
    let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        rows.remove(0);
    }
    let next_cursor = rows.first().filter(|_| more).map(|row| row.position.to_string());
    let items = rows.into_iter().map(MessageInfo::from).collect();
    Ok(Answer(Page { items, next_cursor }))
}

async fn stop_turn(workspace: &Workspace, chat: &ChatId) {
    for live in workspace.turns.of_chat(chat) {
        live.stop(Stop::Deleted).await;
    }
}

/// A conversation of the workspace; one of another is as unknown as none.
async fn owned(workspace: &Workspace, owner: &str, id: &str) -> Result<ConversationRow, Problem> {
    let unknown = || Problem::not_found("conversation", id);
    let chat = ChatId::parse(id).map_err(|_| unknown())?;
    workspace.store.conversation(owner, &chat).await?.ok_or_else(unknown)
}

async fn checked(
    workspace: &Workspace,
    owner: &str,
    input: ConversationInput,
) -> Result<(Option<String>, Option<ResourceId>), Problem> {
    let good = |title: &String| {
        let length = title.trim().chars().count();
        (1..=TITLE_LIMIT).contains(&length) && !title.chars().any(char::is_control)
    };
    if !input.title.as_ref().is_none_or(good) {
        let message = format!("title is 1 to {TITLE_LIMIT} characters on one line");
        return Err(Problem::bad_field("title", message));
    }
    let Some(agent) = input.agent_id else { return Ok((input.title, None)) };
    let unknown = || Problem::bad_field("agentId", format!("there is no agent `{agent}`"));
    let id = ResourceId::parse(ResourceKind::Agent, &agent).map_err(|_| unknown())?;
    let found = workspace.store.resource(owner, ResourceKind::Agent, &id).await?;
    found.ok_or_else(unknown)?;
    Ok((input.title, Some(id)))
}

fn cursor(text: &str) -> Result<(DateTime<Utc>, ChatId), Problem> {
    let parse = || {
        let (time, id) = text.split_once('_')?;
        let time = DateTime::from_timestamp_millis(time.parse().ok()?)?;
        Some((time, ChatId::parse(id).ok()?))
    };
    parse().ok_or_else(bad_cursor)
}

fn bad_cursor() -> Problem {
    Problem::bad_field("cursor", "cursor is not one that this list gave")
}

impl From<ConversationRow> for ConversationInfo {
    fn from(row: ConversationRow) -> ConversationInfo {
        ConversationInfo {
            id: row.id.to_string(),
            title: row.title,
            agent_id: row.agent_id.map(|id| id.to_string()),
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use wire::workspace::ChatId;

    use super::cursor;

    #[test]
    fn a_cursor_is_a_time_and_a_conversation() {
        let id = ChatId::from_random([1; 15]);
        let time = DateTime::from_timestamp_millis(1_700_000_000_123).unwrap();
        let (read, chat) = cursor(&format!("1700000000123_{id}")).unwrap();
        assert_eq!((read, chat), (time, id));
        for wrong in ["", "_", "1_2", "x_chat_000000000000000000000000"] {
            assert!(cursor(wrong).is_err(), "{wrong}");
        }
    }
}
