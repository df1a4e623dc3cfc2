//! A handle to one living run: everybody but its driver holds this and asks.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use store::{OnDisconnect, RunRow};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::log::{Life, Progress};

/// One living run.
#[derive(Debug)]
pub(crate) struct Run {
    row: RunRow,
    directory: PathBuf,
    progress: watch::Receiver<Progress>,
    asked: CancellationToken,
    order: OnceLock<Order>,
}

/// What somebody wants of a run. The first order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It ends as cancelled, for this reason.
    Cancel(&'static str),
    /// It goes on without this server.
    Leave,
}

impl Run {
    pub(crate) fn new(
        row: RunRow,
        directory: PathBuf,
        progress: watch::Receiver<Progress>,
    ) -> Arc<Run> {
        let asked = CancellationToken::new();
        Arc::new(Run { row, directory, progress, asked, order: OnceLock::new() })
    }

    /// What was written down when it began.
    pub(crate) fn row(&self) -> &RunRow {
        &self.row
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> &PathBuf {
        &self.directory
    }

    /// How far its log is.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Asks for something. Returns before it is done.
    pub(crate) fn ask(&self, order: Order) {
        // An order that comes second changes nothing.
        let _ = self.order.set(order);
        self.asked.cancel();
    }

    /// Waits for somebody to ask.
    pub(crate) async fn asked(&self) -> Order {
        self.asked.cancelled().await;
        self.order.get().copied().unwrap_or(Order::Leave)
    }

    /// Waits until nothing of it is left but its log, or this server leaves it.
    pub(crate) async fn settled(&self) {
        let mut progress = self.progress.clone();
        // A driver that is gone has nothing more to say.
        let _ = progress.wait_for(|progress| progress.life != Life::Going).await;
    }
}

/// The line to the caller who dispatched a run. Dropped before the run has ended,
/// it means that the caller hung up.
#[derive(Debug)]
pub(crate) struct CallersLine(Arc<Run>);

impl CallersLine {
    pub(crate) fn new(run: Arc<Run>) -> CallersLine {
        CallersLine(run)
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.0
    }
}

impl Drop for CallersLine {
    fn drop(&mut self) {
        match self.0.row.on_disconnect {
            OnDisconnect::Cancel => self.0.ask(Order::Cancel("the caller hung up")),
            OnDisconnect::Continue => {}
        }
    }
}
