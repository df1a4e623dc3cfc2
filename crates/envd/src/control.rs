//! What the host is told about commands, on a stream of its own.
//!
//! The first line is a snapshot; then come starts, output and ends in order. A
//! host that reads too slowly costs us a bounded queue: when it is full, it is
//! thrown away and a fresh snapshot takes its place. Nothing is queued while
//! nobody reads, because the snapshot will tell.
//!
//! A client must not see what the host has not been told: whoever starts or ends
//! a command waits, for a moment, until that line has been written.

mod body;
mod tee;

pub(crate) use body::ControlBody;

use std::{cell::RefCell, collections::VecDeque, task::Waker, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};
use wire::{ControlMessage, Stream};

use tee::Tee;

/// Starts and ends that wait for the host.
const EVENTS: usize = 8192;
/// The bytes of those.
const EVENT_BYTES: usize = 1 << 20;
/// Output goes out at most this often on its own.
const LOG_INTERVAL: Duration = Duration::from_millis(20);

/// The host's view of this sandbox.
pub(crate) struct Control {
    state: RefCell<State>,
    /// Told when lines were written or the host left.
    written: Notify,
}

/// A place in the order of everything the host is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// One connection of the host. The newest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(u64);

#[derive(Default)]
struct State {
    link: Option<Link>,
    links: u64,
    last: u64,
    snapshot_due: bool,
    events: VecDeque<Event>,
    event_bytes: usize,
    tee: Tee,
    last_log: Option<Instant>,
    /// Everything up to here is in hyper's hands.
    handed_over: u64,
    /// Everything up to here is in the socket.
    written: u64,
    /// The host was waited for in vain, and nobody waits again until it reads.
    stuck: bool,
    waker: Option<Waker>,
    /// The body will look again by itself, so output need not wake it.
    timed: bool,
}

struct Event {
    ticket: Ticket,
    line: Bytes,
}

/// What the stream's body finds.
pub(crate) enum Drain {
    /// Lines to send.
    Lines(Bytes),
    /// Output that waits until then for company.
    Until(Instant),
    /// Nothing.
    Nothing,
    /// A newer connection took over.
    Replaced,
}

impl Control {
    pub(crate) fn new() -> Control {
        Control { state: RefCell::default(), written: Notify::new() }
    }

    /// A start or an end.
    pub(crate) fn event(&self, message: &ControlMessage) -> Ticket {
        let mut state = self.state.borrow_mut();
        let ticket = state.next_ticket();
        if state.link.is_some() && !state.snapshot_due {
            let line = line(message);
            state.event_bytes += line.len();
            state.events.push_back(Event { ticket, line });
            if state.events.len() > EVENTS || state.event_bytes > EVENT_BYTES {
                state.require_snapshot();
            }
        }
        state.wake();
        ticket
    }

    /// Output. It is kept while nobody reads, in case the host comes back.
    pub(crate) fn tee(&self, pid: u32, stream: Stream, bytes: Bytes) {
        let mut state = self.state.borrow_mut();
        let ticket = state.next_ticket();
        state.tee.push(ticket, pid, stream, bytes);
        if !state.timed {
            state.wake();
        }
    }

    /// Waits until the host's socket has the line, if there is a host, and for
    /// no longer than `patience`.
    pub(crate) async fn written(&self, ticket: Ticket, patience: Duration) {
        let deadline = Instant::now() + patience;
        loop {
            {
                let state = self.state.borrow();
                if state.link.is_none() || state.stuck || state.written >= ticket.0 {
                    return;
                }
            }
            if timeout_at(deadline, self.written.notified()).await.is_err() {
                self.state.borrow_mut().stuck = true;
                return;
            }
        }
    }

    /// A new connection of the host takes over.
    pub(crate) fn attach(&self) -> Link {
        let mut state = self.state.borrow_mut();
        state.links += 1;
        let link = Link(state.links);
        state.link = Some(link);
        state.stuck = false;
        state.require_snapshot();
        // The former body has to notice that it is not wanted any more.
        state.wake();
        link
    }

    /// hyper has written everything it was given on that connection.
    pub(crate) fn flushed(&self, link: Link) {
        let mut state = self.state.borrow_mut();
        if state.link == Some(link) && state.written < state.handed_over {
            state.written = state.handed_over;
            state.stuck = false;
            self.written.notify_waiters();
        }
    }

    fn detach(&self, link: Link) {
        let mut state = self.state.borrow_mut();
        if state.link == Some(link) {
            state.link = None;
            state.forget_events();
            self.written.notify_waiters();
        }
    }

    /// Takes everything there is to say now.
    fn drain(&self, link: Link, snapshot: impl FnOnce() -> ControlMessage) -> Drain {
        let mut state = self.state.borrow_mut();
        if state.link != Some(link) {
            return Drain::Replaced;
        }
        state.timed = false;
        let mut out = BytesMut::new();
        if std::mem::take(&mut state.snapshot_due) {
            state.forget_events();
            out.extend_from_slice(&line(&snapshot()));
        }
        if out.is_empty() && state.events.is_empty() {
            if state.tee.is_empty() {
                return Drain::Nothing;
            }
            let due = state.last_log.map(|last| last + LOG_INTERVAL);
            if let Some(due) = due.filter(|due| *due > Instant::now()) {
                state.timed = true;
                return Drain::Until(due);
            }
        }
        state.write_all(&mut out);
        Drain::Lines(out.freeze())
    }

    /// Has `waker` woken when there is something to say.
    fn wait(&self, waker: &Waker) {
        self.state.borrow_mut().waker = Some(waker.clone());
    }
}

impl State {
    fn next_ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket(self.last)
    }

    fn require_snapshot(&mut self) {
        self.forget_events();
        self.snapshot_due = true;
    }

    fn forget_events(&mut self) {
        self.events = VecDeque::new();
        self.event_bytes = 0;
    }

    /// Writes events and output in the order in which they happened.
    fn write_all(&mut self, out: &mut BytesMut) {
        if !self.tee.is_empty() {
            self.tee.keep_last_lines();
            self.last_log = Some(Instant::now());
        }
        while let Some(event) = self.events.pop_front() {
            self.tee.write_before(event.ticket, out);
            out.extend_from_slice(&event.line);
        }
        self.event_bytes = 0;
        self.tee.write_before(Ticket(u64::MAX), out);
        self.handed_over = self.last;
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            self.timed = false;
            waker.wake();
        }
    }
}

fn line(message: &ControlMessage) -> Bytes {
    // Strings and numbers only, so this cannot fail.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

#[cfg(test)]
mod tests;
