//! The streams of one session, and what a frame means to them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    net::UnixStream,
    sync::{Semaphore, mpsc},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    frame::{Frame, WINDOW},
    pump::pump,
};

/// Connections that may be open at once.
pub(crate) const STREAMS: usize = 4096;

/// What all parts of a session share.
pub(crate) struct Hub {
    pub(crate) frames: mpsc::Sender<Frame>,
    pub(crate) pumps: TaskTracker,
    pub(crate) stop: CancellationToken,
    streams: Mutex<HashMap<u32, Entry>>,
}

/// The rules that a peer can break with a frame that is well formed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Broken {
    #[error("stream {0} is opened twice")]
    Twice(u32),
    #[error("more than {STREAMS} streams are open")]
    Many,
    #[error("stream {0} has more data or credit than it was allowed")]
    Credit(u32),
}

/// One stream, as the reading side sees it.
struct Entry {
    /// Bounded by the window. `None` after the peer's last data.
    inbound: Option<mpsc::UnboundedSender<Vec<u8>>>,
    credit: Arc<Credit>,
    reset: CancellationToken,
}

/// What both directions of a stream may still send.
pub(crate) struct Credit {
    /// Bytes we may send.
    pub(crate) ours: Semaphore,
    /// Bytes the peer may send.
    pub(crate) theirs: AtomicUsize,
}

impl Hub {
    pub(crate) fn new(frames: mpsc::Sender<Frame>) -> Hub {
        let (pumps, stop) = (TaskTracker::new(), CancellationToken::new());
        Hub { frames, pumps, stop, streams: Mutex::default() }
    }

    /// Begins to carry a connection.
    pub(crate) fn begin(self: &Arc<Hub>, id: u32, socket: UnixStream) -> Result<(), Broken> {
        let (inbound, bytes) = mpsc::unbounded_channel();
        let credit =
            Arc::new(Credit { ours: Semaphore::new(WINDOW), theirs: AtomicUsize::new(WINDOW) });
        let reset = self.stop.child_token();
        let entry =
            Entry { inbound: Some(inbound), credit: Arc::clone(&credit), reset: reset.clone() };
        let Ok(mut streams) = self.streams.lock() else { return Ok(()) };
        if streams.len() >= STREAMS {
            return Err(Broken::Many);
        }
        if streams.contains_key(&id) {
            return Err(Broken::Twice(id));
        }
        streams.insert(id, entry);
        let hub = Arc::clone(self);
        self.pumps.spawn(async move {
            pump(&hub, id, socket, bytes, &credit, &reset).await;
            hub.forget(id);
        });
        Ok(())
    }

    /// Takes what came for a stream. One that is gone here may still be spoken
    /// to for a while; that is ignored.
    pub(crate) fn deliver(&self, id: u32, data: Vec<u8>) -> Result<(), Broken> {
        let Ok(streams) = self.streams.lock() else { return Ok(()) };
        let Some(entry) = streams.get(&id) else { return Ok(()) };
        let taken = entry
            .credit
            .theirs
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(data.len()));
        match (&entry.inbound, taken) {
            (Some(inbound), Ok(_)) => {
                // A pump that has just ended does not want it any more.
                let _ = inbound.send(data);
                Ok(())
            }
            (None, _) | (_, Err(_)) => Err(Broken::Credit(id)),
        }
    }

    /// Takes more credit for a stream.
    pub(crate) fn allow(&self, id: u32, credit: u32) -> Result<(), Broken> {
        let Ok(streams) = self.streams.lock() else { return Ok(()) };
        let Some(entry) = streams.get(&id) else { return Ok(()) };
        let ours = &entry.credit.ours;
        if ours.available_permits() + credit as usize > WINDOW {
            return Err(Broken::Credit(id));
        }
        ours.add_permits(credit as usize);
        Ok(())
    }

    /// No more data comes for a stream.
    pub(crate) fn end(&self, id: u32) {
        if let Ok(mut streams) = self.streams.lock()
            && let Some(entry) = streams.get_mut(&id)
        {
            entry.inbound = None;
        }
    }

    /// The peer has given a stream up.
    pub(crate) fn reset(&self, id: u32) {
        if let Ok(mut streams) = self.streams.lock()
            && let Some(entry) = streams.remove(&id)
        {
            entry.reset.cancel();
        }
    }

    fn forget(&self, id: u32) {
        if let Ok(mut streams) = self.streams.lock() {
            streams.remove(&id);
        }
    }

    /// Ends every stream and returns when none is left.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.pumps.close();
        self.pumps.wait().await;
    }
}
