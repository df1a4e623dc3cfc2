//! The writing of one turn: events in order, the message and the end at once.
//!
//! Nothing is shown that is not stored. A store that does not answer is asked
//! again, and nothing is read from the runner meanwhile.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use store::{MessageRole, MessageRow, Store, StoreError, StreamEvent, TurnEnd, TurnRow, TurnState};
use tokio_util::sync::CancellationToken;
use wire::workspace::MessageId;

use super::{
    event::{DONE, Ending, TurnEvent},
    fold::Fold,
    live::{LiveTurn, Progress},
    message::MessageInfo,
};
use crate::{clock, state::Workspace};

/// How often events are written before the turn is given up.
const ATTEMPTS: u32 = 6;
/// The pause after the first failure; each next one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The book of one turn.
#[derive(Debug)]
pub(super) struct Book {
    store: Store,
    closing: CancellationToken,
    row: TurnRow,
    live: Arc<LiveTurn>,
    fold: Fold,
    /// The number of the last event in the store.
    seq: u64,
}

/// Events that are to be written, with the runner's number of each.
pub(super) type Pending = Vec<(TurnEvent, Option<u64>)>;

impl Book {
    /// The book of a turn, with nothing in it.
    pub(super) fn new(workspace: &Workspace, row: TurnRow, live: Arc<LiveTurn>) -> Book {
        let (store, closing) = (workspace.store.clone(), workspace.closing.clone());
        Book { store, closing, row, live, fold: Fold::new(), seq: 0 }
    }

    /// The turn.
    pub(super) fn row(&self) -> &TurnRow {
        &self.row
    }

    /// Whether nothing was written yet.
    pub(super) fn is_empty(&self) -> bool {
        self.seq == 0
    }

    /// Takes in an event that is in the store already.
    pub(super) fn recall(&mut self, stored: &StreamEvent) -> Option<TurnEvent> {
        self.seq = stored.seq;
        let event = TurnEvent::of_stored(stored)?;
        self.fold.add(&event);
        Some(event)
    }

    /// Books the runner's name for the turn.
    pub(super) async fn note_run(&mut self, run_id: &str) {
        self.row.run_id = Some(run_id.to_owned());
        let id = &self.row.id;
        if let Err(err) = self.store.set_turn_run(id, run_id).await {
            // Only a next server would miss it.
            tracing::error!(turn.id = %id, "the run of turn {id} was not stored: {err}");
        }
    }

    /// Adds events. On error the turn cannot go on.
    pub(super) async fn append(&mut self, pending: Pending) -> Result<(), StoreError> {
        if pending.is_empty() {
            return Ok(());
        }
        let events = self.number(&pending);
        let last = self.seq + events.len() as u64;
        let mut attempt = 0;
        while let Err(err) = self.store.append_events(self.row.id.as_str(), &events).await {
            if self.is_there(last).await {
                break;
            }
            attempt += 1;
            if attempt == ATTEMPTS {
                return Err(err);
            }
            let id = &self.row.id;
            tracing::warn!(turn.id = %id, attempt, "events of turn {id} were not stored: {err}");
            pause(attempt).await;
        }
        for (event, _) in &pending {
            self.fold.add(event);
        }
        self.seq = last;
        self.live.publish(Progress::Going(last));
        Ok(())
    }

    /// Makes the tokens of the turn good for nothing.
    pub(super) async fn settle(&self) {
        let TurnRow { id, session_id, .. } = &self.row;
        let mut attempt = 0;
        while let Err(err) = self.store.settle_session(session_id, clock::now()).await {
            attempt += 1;
            tracing::error!(turn.id = %id, attempt, "tokens of turn {id} were not revoked: {err}");
            if attempt == ATTEMPTS {
                return;
            }
            pause(attempt).await;
        }
    }

    /// Ends the turn: the last events, the assistant's message and the
    /// terminating event are there together or not at all. Asks the store until
    /// it has them.
    pub(super) async fn finish(&mut self, pending: Pending, ending: &Ending) {
        for (event, _) in &pending {
            self.fold.add(event);
        }
        let at = clock::now();
        let message = self.message(ending, at);
        let (state, code, error) = match ending {
            Ending::Answered { .. } => (TurnState::Succeeded, None, None),
            Ending::Failed { code, message } => {
                (TurnState::Failed, Some(code.clone()), Some(message.clone()))
            }
        };
        let data = done(state, &message, code.as_deref(), error.as_deref());
        let end = TurnEnd { state, code, error, at };
        let id = self.row.id.clone();
        let mut last = self.last_events(&pending, &data);
        let mut attempt = 0;
        while let Err(err) = self.store.finish_turn(&id, &end, &message, &last).await {
            attempt += 1;
            tracing::error!(turn.id = %id, attempt, "the end of turn {id} was not stored: {err}");
            // A server that stops leaves it to the next one, which finds it open.
            if attempt >= ATTEMPTS && self.closing.is_cancelled() {
                return self.leave();
            }
            pause(attempt).await;
            // Their numbers are taken when events are there that were given up.
            if let Ok(Some((seq, _))) = self.store.last_event(id.as_str()).await {
                self.seq = self.seq.max(seq);
                last = self.last_events(&pending, &data);
            }
        }
        self.seq += last.len() as u64;
        self.live.publish(Progress::Ended);
        tracing::info!(turn.id = %id, state = state.name(), "turn {id} {}", state.name());
    }

    /// Leaves the turn to the next server.
    pub(super) fn leave(&self) {
        self.live.publish(Progress::Left);
    }

    /// What is pending, and the terminating event behind it.
    fn last_events(&self, pending: &Pending, done: &str) -> Vec<StreamEvent> {
        let mut last = self.number(pending);
        let seq = self.seq + last.len() as u64 + 1;
        let (kind, data) = (DONE.to_owned(), done.to_owned());
        last.push(StreamEvent { seq, kind, data, upstream: None });
        last
    }

    fn number(&self, pending: &Pending) -> Vec<StreamEvent> {
        let numbers = self.seq + 1..;
        let events = pending.iter().zip(numbers);
        events.map(|((event, upstream), seq)| event.to_stored(seq, *upstream)).collect()
    }

    /// Whether a write that failed did happen: the answer was lost then.
    async fn is_there(&self, last: u64) -> bool {
        let stored = self.store.last_event(self.row.id.as_str()).await;
        matches!(stored, Ok(Some((seq, _))) if seq >= last)
    }

    fn message(&self, ending: &Ending, at: chrono::DateTime<chrono::Utc>) -> MessageRow {
        let blocks = serde_json::to_value(self.fold.finish(ending));
        MessageRow {
            id: MessageId::from_random(rand::random()),
            chat_id: self.row.chat_id.clone(),
            turn_id: self.row.id.clone(),
            role: MessageRole::Assistant,
            blocks: blocks.unwrap_or_else(|_| json!([])),
            attachments: json!([]),
            created_at: at,
            position: 0,
        }
    }
}

/// The data of the terminating event.
fn done(state: TurnState, message: &MessageRow, code: Option<&str>, error: Option<&str>) -> String {
    let message = serde_json::to_value(MessageInfo::from(message.clone()));
    let mut data = json!({"status": state.name(), "message": message.unwrap_or(Value::Null)});
    for (name, value) in [("code", code), ("error", error)] {
        if let Some(value) = value {
            data[name] = value.into();
        }
    }
    data.to_string()
}

async fn pause(attempt: u32) {
    let pause = PAUSE.saturating_mul(2u32.saturating_pow(attempt - 1));
    tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
}
