//! What a command wrote: kept for a while, numbered, and read by any number of
//! readers, each with a cursor of its own.
//!
//! ```text
//! chunks   [ 1-3 stdout ][ 4 stderr ][ 5-90 stdout ]   next event: 91
//!                ▲ reader B, behind                ▲ reader A, up to date
//! ```
//!
//! A chunk is what one read gave, so the work is per chunk and not per line.
//! Events are numbered from 1 over the command's whole life. At most a
//! mebibyte stays, less when many commands are busy, but nothing that an attached
//! reader has yet to get goes: the pumps wait for readers that are far behind,
//! which bounds it. Without any reader what is written goes, oldest first, unless
//! the command was started with its output held: then the command waits.

mod store;

use std::{cell::RefCell, rc::Rc, task::Waker};

use bytes::Bytes;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};
use wire::{ConnectError, Stream, process::process_event::EndEvent};

pub(crate) use store::Budget;
use store::{Congestion, Store};

/// The output of one command.
pub(crate) struct Output {
    store: RefCell<Store>,
    /// Told when a reader advanced or left.
    room: Notify,
}

/// What becomes of output while nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The oldest of it goes.
    Dropped,
    /// The command has to wait, and its end is remembered.
    Held,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// With what is written from now on.
    Now,
    /// Behind the event of that number, as far as it is kept.
    After(u64),
}

/// A reader's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReaderId(u64);

/// What a reader finds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Output it has not had.
    Data(Stream, Bytes),
    /// The command is over, and all of its output has been read.
    Ended(Rc<EndEvent>),
    /// The reader is cut off.
    Cut(ConnectError),
    /// Nothing yet.
    Nothing,
}

impl Output {
    pub(crate) fn new(budget: Rc<Budget>, unread: Unread) -> Output {
        Output { store: RefCell::new(Store::new(budget, unread)), room: Notify::new() }
    }

    /// Adds what was written and tells the readers.
    pub(crate) fn publish(&self, stream: Stream, bytes: Bytes) {
        self.store.borrow_mut().publish(stream, bytes);
    }

    /// The command is over: nothing more will be published.
    pub(crate) fn end(&self, event: EndEvent) {
        let mut store = self.store.borrow_mut();
        store.end = Some(Rc::new(event));
        store.wake_readers();
    }

    /// A new reader, and the number of the first event it will get.
    pub(crate) fn attach(&self, begin: Begin) -> (ReaderId, u64) {
        self.store.borrow_mut().attach(begin)
    }

    /// Forgets a reader, so that nobody waits for it.
    pub(crate) fn detach(&self, reader: ReaderId) {
        self.store.borrow_mut().readers.retain(|slot| slot.id != reader);
        self.room.notify_waiters();
    }

    /// Cuts a reader off with an error.
    pub(crate) fn cut(&self, reader: ReaderId, error: ConnectError) {
        if let Some(slot) = self.store.borrow_mut().slot(reader) {
            slot.cut_off(error);
        }
        self.room.notify_waiters();
    }

    /// Takes the next piece. The pumps hear of it.
    pub(crate) fn take(&self, reader: ReaderId) -> Next {
        let next = self.store.borrow_mut().take(reader);
        if let Next::Data(..) = &next {
            self.room.notify_waiters();
        }
        next
    }

    /// Has `waker` woken when there is something to take.
    pub(crate) fn wait(&self, reader: ReaderId, waker: &Waker) {
        if let Some(slot) = self.store.borrow_mut().slot(reader) {
            slot.waker = Some(waker.clone());
        }
    }

    /// Waits until no reader is far behind.
    pub(crate) async fn room(&self) {
        loop {
            let congestion = self.store.borrow_mut().congestion(Instant::now());
            match congestion {
                Congestion::Clear => return,
                Congestion::All => self.room.notified().await,
                Congestion::SomeUntil(deadline) => {
                    // Either way the next round decides.
                    let _ = timeout_at(deadline, self.room.notified()).await;
                }
            }
        }
    }

    /// Whether what nobody reads is held.
    pub(crate) fn is_held(&self) -> bool {
        self.store.borrow().unread == Unread::Held
    }

    /// Bytes kept, for the limit over all finished commands.
    pub(crate) fn kept(&self) -> usize {
        self.store.borrow().kept
    }

    /// Gives up what is kept, unless somebody still reads it.
    pub(crate) fn discard(&self) {
        let mut store = self.store.borrow_mut();
        if store.readers.is_empty() {
            store.evict(0);
        }
    }
}
