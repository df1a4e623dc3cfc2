//! Executions that are under way in this server: how one is stopped, and how
//! its followers hear that there is more to read.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::workspace::ExecutionId;

/// All of them. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Executions(Arc<Mutex<HashMap<ExecutionId, Live>>>);

/// One of them, seen from outside.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// Asks it to stop.
    pub(crate) cancel: CancellationToken,
    /// How far its stream is.
    pub(crate) progress: watch::Receiver<Progress>,
}

/// How far the stream of an execution is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The number of its last line.
    pub(crate) last: u64,
    /// Whether that one is the last for good.
    pub(crate) ended: bool,
}

/// What an execution listens to while it works.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    asked: CancellationToken,
    closing: CancellationToken,
}

/// Who tells an execution to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoppedBy {
    /// Somebody who started it or may cancel it.
    Caller,
    /// The server, because it ends itself.
    Server,
}

/// Takes an execution off the list when its task is over, however that ends.
pub(crate) struct Listed {
    executions: Executions,
    id: ExecutionId,
    live: Live,
}

impl Executions {
    /// Puts an execution on the list.
    pub(crate) fn list(
        &self,
        id: &ExecutionId,
        closing: &CancellationToken,
    ) -> (Listed, Stop, watch::Sender<Progress>) {
        let cancel = CancellationToken::new();
        let (sender, progress) = watch::channel(Progress::default());
        let live = Live { cancel: cancel.clone(), progress };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(id.clone(), live.clone());
        let listed = Listed { executions: self.clone(), id: id.clone(), live };
        (listed, Stop { asked: cancel, closing: closing.clone() }, sender)
    }

    /// The execution, if it is under way here.
    pub(crate) fn get(&self, id: &ExecutionId) -> Option<Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

impl Stop {
    /// Waits until the execution is told to stop.
    pub(crate) async fn told(&self) {
        tokio::select! {
            () = self.asked.cancelled() => {}
            () = self.closing.cancelled() => {}
        }
    }

    /// Who told it to stop, if anybody did.
    pub(crate) fn by(&self) -> Option<StoppedBy> {
        if self.asked.is_cancelled() {
            Some(StoppedBy::Caller)
        } else if self.closing.is_cancelled() {
            Some(StoppedBy::Server)
        } else {
            None
        }
    }
}

impl Listed {
    /// The execution, seen from outside.
    pub(crate) fn live(&self) -> Live {
        self.live.clone()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut all = self.executions.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.id);
    }
}
