//! The stream of one execution, written by its one task.
//!
//! A line is stored before anybody hears of it. Lines are numbered from 1
//! without gaps, so a reader knows by counting where it was.

use std::time::Duration;

use store::{Store, StoreError, StreamEvent};
use tokio::sync::watch;
use wire::workspace::ExecutionId;

use super::live::Progress;

/// A line that a runner sent.
const FORWARDED: &str = "line";
/// A line of the engine.
const OWN: &str = "engine";
/// How often a busy database is tried again, and how long after.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// The writer of a stream.
pub(crate) struct Journal {
    store: Store,
    stream: String,
    last: u64,
    progress: watch::Sender<Progress>,
}

impl Journal {
    /// A journal without lines.
    pub(super) fn new(
        store: &Store,
        id: &ExecutionId,
        progress: watch::Sender<Progress>,
    ) -> Journal {
        Journal { store: store.clone(), stream: id.as_str().to_owned(), last: 0, progress }
    }

    /// Stores lines of a runner as they are. Not to be dropped half-way: what
    /// is not known to be stored cannot be numbered past.
    pub(super) async fn forward(&mut self, lines: Vec<String>) -> Result<(), StoreError> {
        self.write(FORWARDED, lines).await
    }

    /// Stores a line of ours; the same holds for it.
    pub(super) async fn say(&mut self, line: String) -> Result<(), StoreError> {
        self.write(OWN, vec![line]).await
    }

    /// The line as it will be stored, for the one that is stored together with
    /// the end of the execution.
    pub(super) fn last_words(&self, line: String) -> StreamEvent {
        own(self.last + 1, line)
    }

    /// Asks the store how far the stream is: a write that failed may have
    /// happened, when it was the answer that was lost.
    pub(super) async fn look_back(&mut self) -> Result<(), StoreError> {
        let stored = self.store.last_event(&self.stream).await?;
        self.last = stored.map_or(self.last, |(last, _)| last.max(self.last));
        Ok(())
    }

    /// The last words are stored: nothing follows.
    pub(super) fn close(self) {
        self.progress.send_replace(Progress { last: self.last + 1, ended: true });
    }

    async fn write(&mut self, kind: &str, lines: Vec<String>) -> Result<(), StoreError> {
        let numbered = (self.last + 1..).zip(lines);
        let events: Vec<_> = numbered.map(|(seq, line)| event(kind, seq, line)).collect();
        let Some(last) = events.last().map(|event| event.seq) else { return Ok(()) };
        let mut tries = 1;
        // An agent's hours of work are worth a wait for a database that is busy.
        while let Err(err) = self.store.append_events(&self.stream, &events).await {
            if self.look_back().await.is_ok() && self.last >= last {
                break;
            }
            if !matches!(err, StoreError::Busy) || tries == TRIES {
                return Err(err);
            }
            tries += 1;
            tokio::time::sleep(PAUSE).await;
        }
        self.last = last;
        self.progress.send_replace(Progress { last, ended: false });
        Ok(())
    }
}

/// A line of the engine, as it is stored.
pub(super) fn own(seq: u64, line: String) -> StreamEvent {
    event(OWN, seq, line)
}

fn event(kind: &str, seq: u64, data: String) -> StreamEvent {
    StreamEvent { seq, kind: kind.to_owned(), data, upstream: None }
}
