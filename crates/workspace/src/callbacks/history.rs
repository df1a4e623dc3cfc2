//! What was said before a turn, as its agent is told.

use store::{MessageRole, MessageRow, SessionRow};
use wire::{
    agent::{Content, Message, Role},
    workspace::{ChatId, TurnId},
};

use crate::{problem::Problem, state::Workspace, turn::Block};

/// How many earlier turns an agent is told of.
const REPLAY_TURN_LIMIT: u32 = 20;
/// Most bytes of them: an agent reads a config of 8 MiB at most, and the oldest
/// turns are the first that it can do without.
const REPLAY_BYTES: usize = 4 << 20;

/// The last turns before the session's, oldest first.
pub(super) async fn before(
    workspace: &Workspace,
    session: &SessionRow,
) -> Result<Vec<Message>, Problem> {
    let (Ok(chat), Ok(turn)) = (ChatId::parse(&session.scope), TurnId::parse(&session.work)) else {
        // Not a conversation's session: nothing was said before.
        return Ok(Vec::new());
    };
    let rows = workspace.store.last_turns(&chat, &turn, REPLAY_TURN_LIMIT).await?;
    Ok(fitting(&rows))
}

/// As many whole turns from the end as fit.
fn fitting(rows: &[MessageRow]) -> Vec<Message> {
    let mut left = REPLAY_BYTES;
    let mut turns: Vec<Vec<Message>> = Vec::new();
    for turn in rows.chunk_by(|one, next| one.turn_id == next.turn_id).rev() {
        let messages: Vec<Message> = turn.iter().map(message).collect();
        let length = messages.iter().map(|message| message.content.to_text().len()).sum();
        let Some(rest) = left.checked_sub(length) else { break };
        left = rest;
        turns.push(messages);
    }
    turns.into_iter().rev().flatten().collect()
}

fn message(row: &MessageRow) -> Message {
    let blocks: Vec<Block> = serde_json::from_value(row.blocks.clone()).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(Block::text).collect();
    let text = texts.join("\n\n");
    let (role, nothing) = match row.role {
        MessageRole::User => (Role::User, "(nothing)"),
        MessageRole::Assistant => (Role::Assistant, "(no answer: the turn failed)"),
    };
    // Models refuse a message that says nothing.
    let text = if text.trim().is_empty() { nothing.to_owned() } else { text };
    Message { role, content: Content::Text(text) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use store::{MessageRole, MessageRow};
    use wire::{
        agent::{Message, Role},
        workspace::{ChatId, MessageId, TurnId},
    };

    use super::{REPLAY_BYTES, fitting};

    fn row(turn: u8, role: MessageRole, blocks: Value) -> MessageRow {
        MessageRow {
            id: MessageId::from_random([turn; 15]),
            chat_id: ChatId::from_random([0; 15]),
            turn_id: TurnId::from_random([turn; 15]),
            role,
            blocks,
            attachments: json!([]),
            created_at: crate::clock::now(),
            position: i64::from(turn),
        }
    }

    fn texts(messages: &[Message]) -> Vec<(Role, String)> {
        messages.iter().map(|message| (message.role, message.content.to_text())).collect()
    }

    #[test]
    fn texts_are_told_and_steps_are_not() {
        let steps = json!([
            {"type": "text", "text": "One moment."},
            {"type": "step", "id": "step_1", "name": "shell", "status": "succeeded", "args": {}},
            {"type": "text", "text": "Done."},
        ]);
        let failed = json!([{"type": "error", "code": "internal", "message": "x"}]);
        let rows = [
            row(1, MessageRole::User, json!([{"type": "text", "text": "Do it"}])),
            row(1, MessageRole::Assistant, steps),
            row(2, MessageRole::User, json!([{"type": "text", "text": "Again"}])),
            row(2, MessageRole::Assistant, failed),
        ];
        assert_eq!(
            texts(&fitting(&rows)),
            [
                (Role::User, "Do it".to_owned()),
                (Role::Assistant, "One moment.\n\nDone.".to_owned()),
                (Role::User, "Again".to_owned()),
                (Role::Assistant, "(no answer: the turn failed)".to_owned()),
            ]
        );
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_oldest_on_and_in_whole_turns() {
        let long = "x".repeat(REPLAY_BYTES / 2);
        let said = |text: &str| json!([{"type": "text", "text": text}]);
        let rows = [
            row(1, MessageRole::User, said("first")),
            row(1, MessageRole::Assistant, said(&long)),
            row(2, MessageRole::User, said("second")),
            row(2, MessageRole::Assistant, said(&long[..long.len() - 10])),
        ];
        assert_eq!(texts(&fitting(&rows))[0].1, "second");
        assert_eq!(fitting(&rows).len(), 2);
    }
}
