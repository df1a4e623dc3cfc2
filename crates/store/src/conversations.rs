//! Conversations and their messages.
//!
//! A conversation that is deleted stays as a row nobody finds, with its
//! messages; its bag is hidden with it. Messages come and go with turns: who
//! writes them is `turns`.

use chrono::{DateTime, Utc};
use serde_json::Value;
use wire::workspace::{ChatId, MessageId, ResourceId, ResourceKind, TurnId};

use crate::database::{Store, StoreError, from_column, on, to_column, transaction, without_nul};

/// One conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRow {
    /// Its public name.
    pub id: ChatId,
    /// Whose it is.
    pub workspace: String,
    /// What people call it.
    pub title: String,
    /// Who answers; nobody in particular is the default Assistant.
    pub agent_id: Option<ResourceId>,
    /// When it was made, to the millisecond.
    pub created_at: DateTime<Utc>,
    /// When something was last said in it or about it.
    pub updated_at: DateTime<Utc>,
    /// When it was deleted; what is read has never been.
    pub deleted_at: Option<DateTime<Utc>>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageRole {
    /// The one who asks.
    User,
    /// The one who answers.
    Assistant,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Its public name.
    pub id: MessageId,
    /// Where it was said.
    pub chat_id: ChatId,
    /// What it asks or answers.
    pub turn_id: TurnId,
    /// Who speaks.
    pub role: MessageRole,
    /// What is said, as a list of blocks.
    pub blocks: Value,
    /// The files that came with it, as a list.
    pub attachments: Value,
    /// When, to the millisecond.
    pub created_at: DateTime<Utc>,
    /// Its place in the conversation. It is given by the store: what a new
    /// message says here does not count.
    pub position: i64,
}

impl MessageRole {
    /// The name in the store and in answers.
    pub fn name(self) -> &'static str {
        match self {
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
        }
    }

    fn parse(name: &str) -> Option<MessageRole> {
        [MessageRole::User, MessageRole::Assistant].into_iter().find(|role| role.name() == name)
    }
}

impl Store {
    /// Adds a conversation. An id that is there already is an error.
    pub async fn create_conversation(&self, row: &ConversationRow) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query(
            "INSERT INTO conversations
                 (id, workspace, title, agent_id, created_at, updated_at, deleted_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(row.id.as_str())
        .bind(&row.workspace)
        .bind(without_nul(&row.title))
        .bind(row.agent_id.as_ref().map(ResourceId::as_str))
        .bind(to_column(row.created_at))
        .bind(to_column(row.updated_at))
        .bind(row.deleted_at.map(to_column))
        .execute(pool)
        .await
        .map(|_| ()))?;
        Ok(())
    }

    /// One conversation of the workspace that is not deleted.
    pub async fn conversation(
        &self,
        workspace: &str,
        id: &ChatId,
    ) -> Result<Option<ConversationRow>, StoreError> {
        let columns: Option<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM conversations
             WHERE id = $1 AND workspace = $2 AND deleted_at IS NULL",
        )
        .bind(id.as_str())
        .bind(workspace)
        .fetch_optional(pool)
        .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// The workspace's conversations, the one touched last first, behind the
    /// one that was touched then.
    pub async fn list_conversations(
        &self,
        workspace: &str,
        before: Option<(DateTime<Utc>, &ChatId)>,
        limit: u32,
    ) -> Result<Vec<ConversationRow>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM conversations
             WHERE workspace = $1 AND deleted_at IS NULL
                 AND ($2 IS NULL OR (updated_at, id) < ($2, $3))
             ORDER BY updated_at DESC, id DESC LIMIT $4",
        )
        .bind(workspace)
        .bind(before.map(|(time, _)| to_column(time)))
        .bind(before.map(|(_, id)| id.as_str()))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// Gives a conversation another title and agent. False when it is not there.
    pub async fn update_conversation(
        &self,
        workspace: &str,
        id: &ChatId,
        title: &str,
        agent_id: Option<&ResourceId>,
    ) -> Result<bool, StoreError> {
        let changed = on!(self, |pool| sqlx::query(
            "UPDATE conversations SET title = $3, agent_id = $4, updated_at = $5
             WHERE id = $1 AND workspace = $2 AND deleted_at IS NULL",
        )
        .bind(id.as_str())
        .bind(workspace)
        .bind(without_nul(title))
        .bind(agent_id.map(ResourceId::as_str))
        .bind(to_column(Utc::now()))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(changed > 0)
    }

    /// Hides a conversation and its bag. False when it is not there.
    pub async fn delete_conversation(
        &self,
        workspace: &str,
        id: &ChatId,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        transaction!(self, |tx| {
            let deleted = sqlx::query(
                "UPDATE conversations SET deleted_at = $3
                 WHERE id = $1 AND workspace = $2 AND deleted_at IS NULL",
            )
            .bind(id.as_str())
            .bind(workspace)
            .bind(to_column(now))
            .execute(&mut **tx)
            .await?
            .rows_affected();
            if deleted > 0 {
                sqlx::query(
                    "UPDATE assistant_chat_bag_files SET deleted_at = $2
                     WHERE chat_id = $1 AND deleted_at IS NULL",
                )
                .bind(id.as_str())
                .bind(to_column(now))
                .execute(&mut **tx)
                .await?;
            }
            Ok::<_, StoreError>(deleted > 0)
        })
    }

    /// The last messages before a place, at most `limit` of them, oldest first.
    pub async fn messages(
        &self,
        chat: &ChatId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let columns: Vec<MessageColumns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM messages WHERE chat_id = $1 AND position < $2
             ORDER BY position DESC LIMIT $3",
        )
        .bind(chat.as_str())
        .bind(before.unwrap_or(i64::MAX))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await)?;
        columns.into_iter().rev().map(MessageColumns::into_row).collect()
    }

    /// All messages of the last turns that ended before this one began, at
    /// most so many turns, oldest first.
    pub async fn last_turns(
        &self,
        chat: &ChatId,
        before_turn: &TurnId,
        turns: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let columns: Vec<MessageColumns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM messages WHERE turn_id IN (
                 SELECT turns.id FROM turns
                 JOIN messages AS asked ON asked.id = turns.user_message_id
                 WHERE turns.chat_id = $1 AND turns.ended_at IS NOT NULL
                     AND asked.position < (
                         SELECT MIN(position) FROM messages WHERE turn_id = $2)
                 ORDER BY asked.position DESC LIMIT $3)
             ORDER BY position",
        )
        .bind(chat.as_str())
        .bind(before_turn.as_str())
        .bind(i64::from(turns))
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(MessageColumns::into_row).collect()
    }
}

/// A conversation as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    workspace: String,
    title: String,
    agent_id: Option<String>,
    created_at: i64,
    updated_at: i64,
    deleted_at: Option<i64>,
}

impl Columns {
    fn into_row(self) -> Result<ConversationRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        let agent = |id: &String| {
            ResourceId::parse(ResourceKind::Agent, id).map_err(|_| damaged("agent_id"))
        };
        Ok(ConversationRow {
            id: ChatId::parse(&self.id).map_err(|_| damaged("id"))?,
            agent_id: self.agent_id.as_ref().map(agent).transpose()?,
            created_at: from_column(&self.id, "created_at", self.created_at)?,
            updated_at: from_column(&self.id, "updated_at", self.updated_at)?,
            deleted_at: self
                .deleted_at
                .map(|at| from_column(&self.id, "deleted_at", at))
                .transpose()?,
            workspace: self.workspace,
            title: self.title,
        })
    }
}

/// A message as the database gives it.
#[derive(sqlx::FromRow)]
struct MessageColumns {
    id: String,
    chat_id: String,
    turn_id: String,
    role: String,
    blocks: String,
    attachments: String,
    created_at: i64,
    position: i64,
}

impl MessageColumns {
    fn into_row(self) -> Result<MessageRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        Ok(MessageRow {
            id: MessageId::parse(&self.id).map_err(|_| damaged("id"))?,
            chat_id: ChatId::parse(&self.chat_id).map_err(|_| damaged("chat_id"))?,
            turn_id: TurnId::parse(&self.turn_id).map_err(|_| damaged("turn_id"))?,
            role: MessageRole::parse(&self.role).ok_or_else(|| damaged("role"))?,
            blocks: serde_json::from_str(&self.blocks).map_err(|_| damaged("blocks"))?,
            attachments: serde_json::from_str(&self.attachments)
                .map_err(|_| damaged("attachments"))?,
            created_at: from_column(&self.id, "created_at", self.created_at)?,
            position: self.position,
        })
    }
}
