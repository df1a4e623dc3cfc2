//! The start of a turn: everything is checked, then it is there with its
//! message, and its driver runs.

use std::sync::Arc;

use serde_json::json;
use store::{
    BeginTurnError, ConversationRow, FileRow, MessageRole, MessageRow, OnDisconnect, Shelf,
    TurnRow, TurnState,
};
use wire::{
    Code,
    workspace::{ChatId, FileId, MessageId, SessionId, TurnId},
};

use super::{
    book::Book,
    driver::{Beginning, Driver, Task},
    event::FileInfo,
    fold::Block,
};
use crate::{clock, problem::Problem, state::Workspace};

/// Characters of the first message that become a conversation's title.
const TITLE: usize = 80;

/// A turn that somebody wants.
#[derive(Clone, Debug)]
pub(crate) struct NewTurn {
    /// The conversation; without one it begins one.
    pub(crate) conversation: Option<String>,
    /// What the user says.
    pub(crate) message: String,
    /// Ids of files in the conversation's bag.
    pub(crate) attachments: Vec<String>,
    /// What it means when nobody listens any more.
    pub(crate) on_disconnect: OnDisconnect,
    /// What the sandbox starts from.
    pub(crate) template: Option<String>,
}

/// A turn that has begun.
#[derive(Clone, Debug)]
pub(crate) struct StartedTurn {
    pub(crate) turn: TurnId,
    pub(crate) chat: ChatId,
    pub(crate) message: MessageId,
}

impl Workspace {
    /// Begins a turn. It is not undone by a client that hangs up meanwhile.
    pub(crate) async fn start_turn(
        &self,
        owner: &str,
        new: NewTurn,
    ) -> Result<StartedTurn, Problem> {
        let (workspace, owner) = (self.clone(), owner.to_owned());
        let starting = self.tasks.spawn(async move { workspace.begin(&owner, new).await });
        starting.await.unwrap_or_else(|panic| {
            Err(Problem::new(Code::Internal, "the turn could not be started").caused_by(panic))
        })
    }

    async fn begin(&self, owner: &str, new: NewTurn) -> Result<StartedTurn, Problem> {
        if self.closing.is_cancelled() {
            return Err(Problem::new(Code::Unavailable, "the server is stopping"));
        }
        let found = self.named_conversation(owner, &new).await?;
        // An agent that cannot be dispatched is told now, not by its sandbox.
        let agent_id = found.as_ref().and_then(|row| row.agent_id.clone());
        let agent = self.resolve_agent(owner, agent_id.as_ref()).await?;
        let conversation = match found {
            Some(row) => row,
            None => self.new_conversation(owner, &new).await?,
        };
        let attachments = self.attachments(owner, &conversation.id, &new.attachments).await?;
        let now = clock::now();
        let row = TurnRow {
            id: TurnId::from_random(rand::random()),
            chat_id: conversation.id.clone(),
            workspace: owner.to_owned(),
            session_id: SessionId::from_random(rand::random()),
            user_message_id: MessageId::from_random(rand::random()),
            state: TurnState::Running,
            on_disconnect: new.on_disconnect,
            run_id: None,
            code: None,
            error: None,
            started_at: now,
            ended_at: None,
        };
        let files: Vec<FileInfo> = attachments.iter().map(FileInfo::from).collect();
        let message = MessageRow {
            id: row.user_message_id.clone(),
            chat_id: row.chat_id.clone(),
            turn_id: row.id.clone(),
            role: MessageRole::User,
            blocks: json!([Block::Text { text: new.message.clone() }]),
            attachments: json!(files),
            created_at: now,
            position: 0,
        };
        let ids: Vec<FileId> = attachments.into_iter().map(|file| file.id).collect();
        let live = self.turns.enroll(&row.id, &row.chat_id);
        if let Err(err) = self.store.begin_turn(&row, &message, &ids).await {
            self.turns.strike(&row.id);
            return Err(not_begun(err, &conversation.id, &new.attachments));
        }
        let started = StartedTurn {
            turn: row.id.clone(),
            chat: row.chat_id.clone(),
            message: row.user_message_id.clone(),
        };
        let task = Task {
            prompt: new.message,
            agent: conversation.agent_id.map(|id| id.to_string()),
            template: new.template.or(agent.template),
            harness: agent.harness,
        };
        let book = Book::new(self, row, Arc::clone(&live));
        let driver = Driver::new(self.clone(), live, book);
        self.tasks.spawn(driver.drive(Beginning::Dispatch(task)));
        Ok(started)
    }

    /// The conversation that is named, if one is.
    async fn named_conversation(
        &self,
        owner: &str,
        new: &NewTurn,
    ) -> Result<Option<ConversationRow>, Problem> {
        let Some(id) = &new.conversation else {
            // One that is not there yet has no files.
            return new.attachments.first().map_or(Ok(None), |id| Err(no_file(0, id)));
        };
        let unknown = || Problem::not_found("conversation", id).in_field("conversationId");
        let chat = ChatId::parse(id).map_err(|_| unknown())?;
        self.store.conversation(owner, &chat).await?.ok_or_else(unknown).map(Some)
    }

    async fn new_conversation(
        &self,
        owner: &str,
        new: &NewTurn,
    ) -> Result<ConversationRow, Problem> {
        let now = clock::now();
        let row = ConversationRow {
            id: ChatId::from_random(rand::random()),
            workspace: owner.to_owned(),
            title: title(&new.message),
            agent_id: None,
            created_at: now,
            updated_at: now,
            deleted_at: None,
        };
        self.store.create_conversation(&row).await?;
        Ok(row)
    }

    /// The attached files, in the order of their ids.
    async fn attachments(
        &self,
        owner: &str,
        chat: &ChatId,
        ids: &[String],
    ) -> Result<Vec<FileRow>, Problem> {
        let mut parsed = Vec::new();
        for (index, id) in ids.iter().enumerate() {
            let id = FileId::parse(id).map_err(|_| no_file(index, id))?;
            if parsed.contains(&id) {
                let message = format!("file `{id}` is attached twice");
                return Err(Problem::bad_field(format!("attachmentIds[{index}]"), message));
            }
            parsed.push(id);
        }
        if parsed.is_empty() {
            return Ok(Vec::new());
        }
        let shelf = Shelf::Bag(chat.as_str());
        let mut rows = self.store.files_by_id(owner, shelf, &parsed).await?;
        let mut files = Vec::new();
        for (index, id) in parsed.iter().enumerate() {
            let place = rows.iter().position(|row| row.id == *id);
            let place = place.ok_or_else(|| no_file(index, id.as_str()))?;
            files.push(rows.swap_remove(place));
        }
        Ok(files)
    }
}

fn no_file(index: usize, id: &str) -> Problem {
    let message = format!("there is no file `{id}` in the conversation");
    Problem::bad_field(format!("attachmentIds[{index}]"), message)
}

fn not_begun(err: BeginTurnError, chat: &ChatId, attachments: &[String]) -> Problem {
    match err {
        BeginTurnError::NoConversation => {
            Problem::not_found("conversation", chat.as_str()).in_field("conversationId")
        }
        BeginTurnError::Busy(turn) => {
            let message = format!("turn `{turn}` of the conversation is still running");
            Problem::conflict("turn_running", message)
        }
        BeginTurnError::NoAttachment(file) => {
            let index = attachments.iter().position(|id| id == file.as_str());
            no_file(index.unwrap_or_default(), file.as_str())
        }
        BeginTurnError::Store(err) => err.into(),
    }
}

/// The beginning of what is said, on one line.
fn title(message: &str) -> String {
    let plain = message.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(TITLE).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn a_title_is_the_beginning_of_the_message() {
        assert_eq!(title("  Hello\nthere "), "Hello there");
        assert_eq!(title(&"ä".repeat(100)), "ä".repeat(80));
        assert_eq!(title(&format!("{} b", "a".repeat(79))), "a".repeat(79));
    }
}
