//! A message as the API shows it, live and after a reload the same.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use store::MessageRow;
use utoipa::ToSchema;

use super::{event::FileInfo, fold::Block};

/// One message of a conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageInfo {
    /// Its id.
    id: String,
    /// The conversation.
    chat_id: String,
    /// The turn it begins or answers.
    turn_id: String,
    /// Who speaks: `user` or `assistant`.
    role: &'static str,
    /// What was said and done, in order.
    #[schema(value_type = Vec<Block>)]
    content: Value,
    /// Files that came with it.
    #[schema(value_type = Vec<FileInfo>)]
    attachments: Value,
    /// When.
    created_at: DateTime<Utc>,
}

impl From<MessageRow> for MessageInfo {
    fn from(row: MessageRow) -> MessageInfo {
        MessageInfo {
            id: row.id.to_string(),
            chat_id: row.chat_id.to_string(),
            turn_id: row.turn_id.to_string(),
            role: row.role.name(),
            content: row.blocks,
            attachments: row.attachments,
            created_at: row.created_at,
        }
    }
}
