//! The chunks of one command's output and the cursors into them, without a
//! clock or a task of their own.

use std::{cell::Cell, collections::VecDeque, rc::Rc, task::Waker, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;
use wire::{Code, ConnectError, Stream, events_in, next_event, process::process_event::EndEvent};

use super::{Begin, Next, ReaderId, Unread};

/// Bytes of output kept for readers to come.
const KEPT: usize = 1 << 20;
/// Bytes that all commands may keep together before each keeps only `SCARCE`.
const TOGETHER: usize = 32 << 20;
/// Bytes a command keeps when many are busy at once.
const SCARCE: usize = 64 << 10;
/// Bytes a reader may be behind before the command has to wait for it.
const LAG: u64 = 128 << 10;
/// How long a reader may make no progress while others could.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a chunk costs beside its bytes.
const CHUNK_COST: usize = size_of::<Chunk>();

/// Whether the command has to wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Congestion {
    Clear,
    /// Every reader is far behind.
    All,
    /// Some are, and until then they may catch up.
    SomeUntil(Instant),
}

/// Bytes kept by all commands of the sandbox.
#[derive(Debug, Default)]
pub(crate) struct Budget(Cell<usize>);

pub(super) struct Store {
    budget: Rc<Budget>,
    pub(super) unread: Unread,
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk that is still here.
    first_chunk: u64,
    pub(super) kept: usize,
    /// Bytes ever published.
    written: u64,
    next_event: u64,
    /// Number of the first chunk that no reader has taken, and the bytes before it.
    untaken: u64,
    taken: u64,
    pub(super) readers: Vec<Slot>,
    next_reader: u64,
    pub(super) end: Option<Rc<EndEvent>>,
}

pub(super) struct Chunk {
    first_event: u64,
    events: u64,
    stream: Stream,
    bytes: Bytes,
}

pub(super) struct Slot {
    pub(super) id: ReaderId,
    chunk: u64,
    /// Bytes of that chunk to leave out.
    skip: usize,
    /// Bytes had, counted from the command's start.
    position: u64,
    last_event: u64,
    lagging_since: Option<Instant>,
    cut: Option<ConnectError>,
    pub(super) waker: Option<Waker>,
}

impl Store {
    pub(super) fn new(budget: Rc<Budget>, unread: Unread) -> Store {
        Store {
            budget,
            unread,
            chunks: VecDeque::new(),
            first_chunk: 0,
            kept: 0,
            written: 0,
            next_event: 1,
            untaken: 0,
            taken: 0,
            readers: Vec::new(),
            next_reader: 0,
            end: None,
        }
    }

    pub(super) fn publish(&mut self, stream: Stream, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let events = events_in(stream, &bytes);
        self.written += bytes.len() as u64;
        self.keep(bytes.len() + CHUNK_COST);
        self.chunks.push_back(Chunk { first_event: self.next_event, events, stream, bytes });
        self.next_event += events;
        let scarce = self.unread == Unread::Dropped && self.budget.0.get() > TOGETHER;
        self.evict(if scarce { SCARCE } else { KEPT });
        self.wake_readers();
    }

    pub(super) fn attach(&mut self, begin: Begin) -> (ReaderId, u64) {
        let id = ReaderId(self.next_reader);
        self.next_reader += 1;
        let mut slot = Slot {
            id,
            chunk: self.first_chunk + self.chunks.len() as u64,
            skip: 0,
            position: self.written,
            last_event: self.next_event - 1,
            lagging_since: None,
            cut: None,
            waker: None,
        };
        if let Begin::After(event) = begin {
            self.rewind(&mut slot, event.saturating_add(1));
        }
        let first_event = slot.last_event + 1;
        self.readers.push(slot);
        (id, first_event)
    }

    /// Moves a cursor back to the event of that number, or to the oldest kept.
    fn rewind(&self, slot: &mut Slot, event: u64) {
        for chunk in self.chunks.iter().rev() {
            if slot.last_event < event {
                return;
            }
            slot.chunk -= 1;
            slot.position -= chunk.bytes.len() as u64;
            slot.last_event = chunk.first_event - 1;
            if chunk.first_event < event {
                for _ in chunk.first_event..event {
                    slot.skip += next_event(chunk.stream, &chunk.bytes[slot.skip..]);
                }
                slot.position += slot.skip as u64;
                slot.last_event = event - 1;
            }
        }
    }

    pub(super) fn take(&mut self, reader: ReaderId) -> Next {
        let Some(slot) = self.readers.iter_mut().find(|slot| slot.id == reader) else {
            return Next::Nothing;
        };
        if let Some(error) = &slot.cut {
            return Next::Cut(error.clone());
        }
        let at = slot.chunk.saturating_sub(self.first_chunk);
        let chunk = usize::try_from(at).ok().and_then(|at| self.chunks.get(at));
        let Some(chunk) = chunk else {
            return self.end.clone().map_or(Next::Nothing, Next::Ended);
        };
        let bytes = chunk.bytes.slice(slot.skip..);
        slot.chunk += 1;
        slot.skip = 0;
        slot.position += bytes.len() as u64;
        slot.last_event = chunk.first_event + chunk.events - 1;
        slot.lagging_since = None;
        self.untaken = self.untaken.max(slot.chunk);
        self.taken = self.taken.max(slot.position);
        Next::Data(chunk.stream, bytes)
    }

    /// Drops the oldest chunks until `limit` holds, but none that a reader needs.
    pub(super) fn evict(&mut self, limit: usize) {
        let readers = self.readers.iter().filter(|slot| slot.cut.is_none());
        let wanted = match self.unread {
            Unread::Dropped => u64::MAX,
            Unread::Held => self.untaken,
        };
        let needed = readers.map(|slot| slot.chunk).min().unwrap_or(wanted);
        while self.kept > limit
            && self.first_chunk < needed
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.first_chunk += 1;
            self.give_up(chunk.bytes.len() + CHUNK_COST);
        }
        if self.chunks.is_empty() {
            self.chunks = VecDeque::new();
        }
    }

    fn keep(&mut self, bytes: usize) {
        self.kept += bytes;
        self.budget.0.update(|total| total + bytes);
    }

    fn give_up(&mut self, bytes: usize) {
        self.kept -= bytes;
        self.budget.0.update(|total| total - bytes);
    }

    /// Looks at how far readers are behind, and cuts off those that made no
    /// progress for too long while others did.
    pub(super) fn congestion(&mut self, now: Instant) -> Congestion {
        let written = self.written;
        let is_read = self.readers.iter().any(|slot| slot.cut.is_none());
        if self.unread == Unread::Held && !is_read && written - self.taken > LAG {
            return Congestion::All;
        }
        let behind = |slot: &Slot| written - slot.position;
        let lags = |slot: &Slot| slot.cut.is_none() && behind(slot) > LAG;
        let healthy = self.readers.iter().any(|slot| slot.cut.is_none() && !lags(slot));
        let mut congestion = Congestion::Clear;
        for slot in self.readers.iter_mut().filter(|slot| lags(slot)) {
            let deadline = *slot.lagging_since.get_or_insert(now) + PATIENCE;
            if !healthy {
                congestion = Congestion::All;
            } else if deadline <= now {
                slot.cut_off(too_slow(behind(slot), slot.last_event));
            } else {
                congestion = match congestion {
                    Congestion::SomeUntil(earlier) => Congestion::SomeUntil(earlier.min(deadline)),
                    Congestion::Clear | Congestion::All => Congestion::SomeUntil(deadline),
                };
            }
        }
        congestion
    }

    pub(super) fn slot(&mut self, reader: ReaderId) -> Option<&mut Slot> {
        self.readers.iter_mut().find(|slot| slot.id == reader)
    }

    pub(super) fn wake_readers(&mut self) {
        for slot in &mut self.readers {
            slot.wake();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.give_up(self.kept);
    }
}

impl Slot {
    pub(super) fn cut_off(&mut self, error: ConnectError) {
        self.cut = Some(error);
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn too_slow(behind: u64, last_event: u64) -> ConnectError {
    let message = format!(
        "reader was too slow: {behind} bytes behind; reconnect with Connect after event {last_event}"
    );
    ConnectError::new(Code::ResourceExhausted, message)
}

#[cfg(test)]
mod tests;
