//! The turns that run here, and how others reach them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;
use wire::workspace::{ChatId, TurnId};

use super::listeners::Listeners;

/// Every turn that has a driver here. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<HashMap<TurnId, Arc<LiveTurn>>>>);

/// A turn that runs.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    chat: ChatId,
    progress: watch::Sender<Progress>,
    order: watch::Sender<Option<Stop>>,
    pub(super) listeners: Listeners,
}

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Events up to this one are in the store.
    Going(u64),
    /// All of them are.
    Ended,
    /// This server stops, and leaves the turn to the next one.
    Left,
}

/// Why a turn is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// Its conversation is being deleted.
    Deleted,
}

impl Turns {
    /// Adds a turn, before its row is in the store: whoever finds the row can
    /// then tell that it has a driver.
    pub(super) fn enroll(&self, id: &TurnId, chat: &ChatId) -> Arc<LiveTurn> {
        let live = Arc::new(LiveTurn {
            chat: chat.clone(),
            progress: watch::channel(Progress::Going(0)).0,
            order: watch::channel(None).0,
            listeners: Listeners::new(),
        });
        self.list().insert(id.clone(), Arc::clone(&live));
        live
    }

    /// Removes a turn that has no driver any more.
    pub(super) fn strike(&self, id: &TurnId) {
        self.list().remove(id);
    }

    /// The turn, if it runs here.
    pub(crate) fn get(&self, id: &TurnId) -> Option<Arc<LiveTurn>> {
        self.list().get(id).cloned()
    }

    /// The turn of a conversation that runs here.
    pub(crate) fn of_chat(&self, chat: &ChatId) -> Option<Arc<LiveTurn>> {
        self.list().values().find(|live| live.chat == *chat).cloned()
    }

    fn list(&self) -> std::sync::MutexGuard<'_, HashMap<TurnId, Arc<LiveTurn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveTurn {
    /// Stops the turn and waits until its end is in the store. The first reason
    /// counts.
    pub(crate) async fn stop(&self, why: Stop) {
        self.order.send_if_modified(|order| {
            let first = order.is_none();
            order.get_or_insert(why);
            first
        });
        let mut progress = self.progress.subscribe();
        // It cannot fail: we hold the sender.
        let _ = progress.wait_for(|progress| !matches!(progress, Progress::Going(_))).await;
    }

    /// Waits until somebody wants it to stop.
    pub(super) async fn stopped(&self) -> Stop {
        let mut order = self.order.subscribe();
        match order.wait_for(Option::is_some).await {
            Ok(why) => why.unwrap_or(Stop::Cancelled),
            Err(_) => Stop::Cancelled,
        }
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn publish(&self, progress: Progress) {
        self.progress.send_replace(progress);
    }
}
