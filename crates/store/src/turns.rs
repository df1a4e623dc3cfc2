//! Turns: a user's message and all that answers it.
//!
//! ```text
//! begin ──► running ──► succeeded, failed (never changes again)
//! ```
//!
//! A conversation has one running turn at most. Its beginning and its end are
//! one transaction each, so that a message is never there without its turn. Both
//! hold the conversation's row first: whoever holds it numbers the messages.

use chrono::{DateTime, Utc};
use sqlx::AssertSqlSafe;
use wire::workspace::{ChatId, FileId, MessageId, SessionId, TurnId};

use crate::conversations::MessageRow;
use crate::database::{Store, StoreError, from_column, on, to_column, transaction, without_nul};
use crate::runs::OnDisconnect;
use crate::streams::{StreamEvent, insert_events};

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// Its public name, and the name of its stream.
    pub id: TurnId,
    /// The conversation it is part of.
    pub chat_id: ChatId,
    /// Whose it is.
    pub workspace: String,
    /// The scope of its tokens.
    pub session_id: SessionId,
    /// What it answers.
    pub user_message_id: MessageId,
    /// How far it is.
    pub state: TurnState,
    /// What it means when nobody listens any more.
    pub on_disconnect: OnDisconnect,
    /// The runner's name for it, once there is one.
    pub run_id: Option<String>,
    /// Why it failed, if it has, as a code.
    pub code: Option<String>,
    /// Why it failed, in words.
    pub error: Option<String>,
    /// When it began, to the millisecond.
    pub started_at: DateTime<Utc>,
    /// When it ended, if it has.
    pub ended_at: Option<DateTime<Utc>>,
}

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// An answer is being made.
    Running,
    /// It was answered.
    Succeeded,
    /// It was not.
    Failed,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// Succeeded or failed.
    pub state: TurnState,
    /// Why it failed, as a code.
    pub code: Option<String>,
    /// Why it failed, in words.
    pub error: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

/// A turn did not begin, and nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BeginTurnError {
    /// The workspace has no such conversation.
    #[error("there is no such conversation")]
    NoConversation,
    /// Another turn of the conversation is running.
    #[error("turn `{0}` of the conversation is still running")]
    Busy(TurnId),
    /// The conversation's bag has no such file.
    #[error("there is no file `{0}` in the conversation")]
    NoAttachment(FileId),
    /// The query failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for BeginTurnError {
    fn from(error: sqlx::Error) -> BeginTurnError {
        BeginTurnError::Store(error.into())
    }
}

impl TurnState {
    /// The name in the store and in answers.
    pub fn name(self) -> &'static str {
        match self {
            TurnState::Running => "running",
            TurnState::Succeeded => "succeeded",
            TurnState::Failed => "failed",
        }
    }

    fn parse(name: &str) -> Option<TurnState> {
        let all = [TurnState::Running, TurnState::Succeeded, TurnState::Failed];
        all.into_iter().find(|state| state.name() == name)
    }
}

const INSERT_MESSAGE: &str = "INSERT INTO messages
         (id, chat_id, turn_id, role, blocks, attachments, created_at, position)
     VALUES ($1, $2, $3, $4, $5, $6, $7,
         (SELECT COALESCE(MAX(position), 0) + 1 FROM messages WHERE chat_id = $2))";

/// Adds a message behind the last one. The conversation's row has to be held.
macro_rules! insert_message {
    ($transaction:ident, $message:expr) => {
        sqlx::query(INSERT_MESSAGE)
            .bind($message.id.as_str())
            .bind($message.chat_id.as_str())
            .bind($message.turn_id.as_str())
            .bind($message.role.name())
            .bind($message.blocks.to_string())
            .bind($message.attachments.to_string())
            .bind(to_column($message.created_at))
            .execute(&mut **$transaction)
            .await?
    };
}

impl Store {
    /// Begins a turn with the user's message, to which the attachments then
    /// belong. One that is attached a second time stays with the first message.
    pub async fn begin_turn(
        &self,
        turn: &TurnRow,
        message: &MessageRow,
        attachments: &[FileId],
    ) -> Result<(), BeginTurnError> {
        let held = self.for_update();
        transaction!(self, |tx| {
            let found: Option<(String,)> = sqlx::query_as(AssertSqlSafe(format!(
                "SELECT id FROM conversations
                 WHERE id = $1 AND workspace = $2 AND deleted_at IS NULL{held}"
            )))
            .bind(turn.chat_id.as_str())
            .bind(&turn.workspace)
            .fetch_optional(&mut **tx)
            .await?;
            if found.is_none() {
                return Err(BeginTurnError::NoConversation);
            }
            let running: Option<(String,)> =
                sqlx::query_as("SELECT id FROM turns WHERE chat_id = $1 AND ended_at IS NULL")
                    .bind(turn.chat_id.as_str())
                    .fetch_optional(&mut **tx)
                    .await?;
            if let Some((id,)) = running {
                return Err(match TurnId::parse(&id) {
                    Ok(id) => BeginTurnError::Busy(id),
                    Err(_) => StoreError::Damaged { id, column: "id" }.into(),
                });
            }
            sqlx::query(
                "INSERT INTO turns
                     (id, chat_id, workspace, session_id, user_message_id, state, on_disconnect,
                      run_id, code, error, started_at, ended_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            )
            .bind(turn.id.as_str())
            .bind(turn.chat_id.as_str())
            .bind(&turn.workspace)
            .bind(turn.session_id.as_str())
            .bind(turn.user_message_id.as_str())
            .bind(turn.state.name())
            .bind(turn.on_disconnect.name())
            .bind(turn.run_id.as_deref())
            .bind(turn.code.as_deref())
            .bind(turn.error.as_deref().map(without_nul))
            .bind(to_column(turn.started_at))
            .bind(turn.ended_at.map(to_column))
            .execute(&mut **tx)
            .await?;
            insert_message!(tx, message);
            for file in attachments {
                let attached = sqlx::query(
                    "UPDATE assistant_chat_bag_files SET message_id = COALESCE(message_id, $4)
                     WHERE id = $1 AND chat_id = $2 AND workspace = $3
                         AND committed_at IS NOT NULL AND deleted_at IS NULL",
                )
                .bind(file.as_str())
                .bind(turn.chat_id.as_str())
                .bind(&turn.workspace)
                .bind(message.id.as_str())
                .execute(&mut **tx)
                .await?
                .rows_affected();
                if attached == 0 {
                    return Err(BeginTurnError::NoAttachment(file.clone()));
                }
            }
            sqlx::query("UPDATE conversations SET updated_at = $2 WHERE id = $1")
                .bind(turn.chat_id.as_str())
                .bind(to_column(turn.started_at))
                .execute(&mut **tx)
                .await?;
            Ok::<_, BeginTurnError>(())
        })
    }

    /// Books the runner's name for a turn.
    pub async fn set_turn_run(&self, id: &TurnId, run_id: &str) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query("UPDATE turns SET run_id = $2 WHERE id = $1")
            .bind(id.as_str())
            .bind(run_id)
            .execute(pool)
            .await
            .map(|_| ()))?;
        Ok(())
    }

    /// One turn of the workspace, running or ended.
    pub async fn turn(&self, workspace: &str, id: &TurnId) -> Result<Option<TurnRow>, StoreError> {
        let columns: Option<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM turns WHERE id = $1 AND workspace = $2"
        )
        .bind(id.as_str())
        .bind(workspace)
        .fetch_optional(pool)
        .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// Every turn whose end is not booked, oldest first.
    pub async fn open_turns(&self) -> Result<Vec<TurnRow>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM turns WHERE ended_at IS NULL ORDER BY started_at, id"
        )
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// Ends a turn: its end, the answer and the last events of its stream are
    /// there together. False when it had ended already; then nothing changes.
    pub async fn finish_turn(
        &self,
        id: &TurnId,
        end: &TurnEnd,
        assistant: &MessageRow,
        last: &[StreamEvent],
    ) -> Result<bool, StoreError> {
        let held = self.for_update();
        transaction!(self, |tx| {
            sqlx::query(AssertSqlSafe(format!("SELECT id FROM conversations WHERE id = $1{held}")))
                .bind(assistant.chat_id.as_str())
                .fetch_optional(&mut **tx)
                .await?;
            let ended = sqlx::query(
                "UPDATE turns SET state = $2, code = $3, error = $4, ended_at = $5
                 WHERE id = $1 AND chat_id = $6 AND ended_at IS NULL",
            )
            .bind(id.as_str())
            .bind(end.state.name())
            .bind(end.code.as_deref().map(without_nul))
            .bind(end.error.as_deref().map(without_nul))
            .bind(to_column(end.at))
            .bind(assistant.chat_id.as_str())
            .execute(&mut **tx)
            .await?
            .rows_affected();
            if ended > 0 {
                insert_message!(tx, assistant);
                insert_events!(&mut **tx, id.as_str(), last);
                sqlx::query("UPDATE conversations SET updated_at = $2 WHERE id = $1")
                    .bind(assistant.chat_id.as_str())
                    .bind(to_column(end.at))
                    .execute(&mut **tx)
                    .await?;
            }
            Ok::<_, StoreError>(ended > 0)
        })
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    chat_id: String,
    workspace: String,
    session_id: String,
    user_message_id: String,
    state: String,
    on_disconnect: String,
    run_id: Option<String>,
    code: Option<String>,
    error: Option<String>,
    started_at: i64,
    ended_at: Option<i64>,
}

impl Columns {
    fn into_row(self) -> Result<TurnRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        let asked = MessageId::parse(&self.user_message_id);
        let on_disconnect = OnDisconnect::parse(&self.on_disconnect);
        Ok(TurnRow {
            id: TurnId::parse(&self.id).map_err(|_| damaged("id"))?,
            chat_id: ChatId::parse(&self.chat_id).map_err(|_| damaged("chat_id"))?,
            session_id: SessionId::parse(&self.session_id).map_err(|_| damaged("session_id"))?,
            user_message_id: asked.map_err(|_| damaged("user_message_id"))?,
            state: TurnState::parse(&self.state).ok_or_else(|| damaged("state"))?,
            on_disconnect: on_disconnect.ok_or_else(|| damaged("on_disconnect"))?,
            started_at: from_column(&self.id, "started_at", self.started_at)?,
            ended_at: self.ended_at.map(|at| from_column(&self.id, "ended_at", at)).transpose()?,
            workspace: self.workspace,
            run_id: self.run_id,
            code: self.code,
            error: self.error,
        })
    }
}
