//! Following a turn: what is in the store behind an event, then what comes.
//!
//! A follower holds one page at a time and asks for the next when the last was
//! taken, so a reader that stops reading costs that page and nothing else.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use store::{StoreError, StreamEvent, TurnRow};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{
    emitter::{HEARTBEAT, emit},
    event::DONE,
    listeners::Listener,
    live::{LiveTurn, Progress},
};
use crate::state::Workspace;

/// Most events that are asked for at once.
const PAGE: u32 = 200;
/// How many are asked for first: some are large.
const FIRST_PAGE: u32 = 16;
/// A page of more bytes than this is followed by a smaller one.
const PAGE_BYTES: usize = 1 << 20;
/// How long a reader hears nothing at most.
const QUIET: Duration = Duration::from_secs(15);
/// How often the store is asked for a turn that has no driver here.
const POLL: Duration = Duration::from_millis(500);
/// How often a store that does not answer is asked again.
const ATTEMPTS: u32 = 4;

/// A reader of one turn.
pub(crate) struct Follower {
    workspace: Workspace,
    row: TurnRow,
    after: u64,
    page: u32,
    driver: Option<Heard>,
    heartbeat: Instant,
    over: bool,
}

/// The driver of the turn, who knows that we listen.
struct Heard {
    progress: watch::Receiver<Progress>,
    _listener: Listener,
}

/// What was known of a turn before its events were read.
enum Seen {
    Going,
    Over,
    /// It has no driver here and has not ended.
    Unattended,
}

impl Follower {
    /// Follows a turn behind event `after`. From now on somebody listens to it.
    pub(crate) fn new(workspace: Workspace, row: TurnRow, after: u64) -> Follower {
        let driver = workspace.turns.get(&row.id).map(|live| Heard::new(&live));
        let heartbeat = Instant::now() + QUIET;
        Follower { workspace, row, after, page: FIRST_PAGE, driver, heartbeat, over: false }
    }

    /// The next bytes of the stream; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while !self.over {
            // What is known first: an end that is seen now has its events stored.
            let read = match self.look().await {
                Ok(seen) => self.read().await.map(|events| (seen, events)),
                Err(err) => Err(err),
            };
            let (seen, events) = match read {
                Ok(read) => read,
                Err(err) => {
                    self.over = true;
                    return Some(Err(io::Error::other(err)));
                }
            };
            if events.is_empty() {
                match seen {
                    Seen::Over => return None,
                    Seen::Going | Seen::Unattended => {
                        if let Some(bytes) = self.wait().await {
                            return Some(Ok(bytes));
                        }
                    }
                }
                continue;
            }
            let bytes = self.show(events);
            if !bytes.is_empty() {
                self.heartbeat = Instant::now() + QUIET;
                return Some(Ok(bytes));
            }
        }
        None
    }

    async fn look(&mut self) -> Result<Seen, StoreError> {
        if self.driver.is_none() {
            let live = self.workspace.turns.get(&self.row.id);
            self.driver = live.map(|live| Heard::new(&live));
        }
        if let Some(driver) = &mut self.driver {
            return Ok(match *driver.progress.borrow_and_update() {
                Progress::Going(_) => Seen::Going,
                Progress::Ended | Progress::Left => Seen::Over,
            });
        }
        let closing = self.workspace.closing.is_cancelled();
        if closing || self.row.ended_at.is_some() {
            return Ok(Seen::Over);
        }
        let row = self.workspace.store.turn(&self.row.workspace, &self.row.id).await?;
        if let Some(row) = row {
            self.row = row;
        }
        Ok(if self.row.ended_at.is_some() { Seen::Over } else { Seen::Unattended })
    }

    async fn read(&mut self) -> Result<Vec<StreamEvent>, StoreError> {
        let mut attempt = 0;
        loop {
            let store = &self.workspace.store;
            match store.events_after(self.row.id.as_str(), self.after, self.page).await {
                Ok(events) => return Ok(events),
                Err(err) if attempt == ATTEMPTS => return Err(err),
                Err(_) => attempt += 1,
            }
            sleep(POLL).await;
        }
    }

    fn show(&mut self, events: Vec<StreamEvent>) -> Bytes {
        let mut out = Vec::new();
        for event in events {
            emit(&event, &mut out);
            self.after = event.seq;
            self.over |= event.kind == DONE;
        }
        self.page =
            if out.len() > PAGE_BYTES { (self.page / 4).max(1) } else { (self.page * 2).min(PAGE) };
        out.into()
    }

    /// Waits for more; gives a heartbeat when that takes long.
    async fn wait(&mut self) -> Option<Bytes> {
        let waited = match &mut self.driver {
            Some(driver) => timeout_at(self.heartbeat, driver.progress.changed()).await.map(drop),
            None => {
                let closing = self.workspace.closing.clone();
                let poll = async {
                    tokio::select! {
                        () = sleep(POLL) => {}
                        () = closing.cancelled() => {}
                    }
                };
                timeout_at(self.heartbeat, poll).await
            }
        };
        waited.is_err().then(|| {
            self.heartbeat = Instant::now() + QUIET;
            Bytes::from_static(HEARTBEAT)
        })
    }
}

impl Heard {
    fn new(live: &Arc<LiveTurn>) -> Heard {
        Heard { progress: live.progress(), _listener: live.listeners.join() }
    }
}
