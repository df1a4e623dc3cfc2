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

    /// Removes a turn that has no driver any more. Whoever waits for one that
    /// never came to its end is told that nothing more comes from here.
    pub(super) fn strike(&self, id: &TurnId) {
        let struck = self.list().remove(id);
        if let Some(live) = struck {
            live.progress.send_if_modified(|progress| {
                let going = matches!(progress, Progress::Going(_));
                if going {
                    *progress = Progress::Left;
                }
                going
            });
        }
    }

    /// The turn, if it runs here.
    pub(crate) fn get(&self, id: &TurnId) -> Option<Arc<LiveTurn>> {
        self.list().get(id).cloned()
    }

    /// The turn of a conversation that runs here, and others that want to begin
    /// and will find it in their way.
    pub(crate) fn of_chat(&self, chat: &ChatId) -> Vec<Arc<LiveTurn>> {
        self.list().values().filter(|live| live.chat == *chat).cloned().collect()
    }

    fn list(&self) -> std::sync::MutexGuard<'_, HashMap<TurnId, Arc<LiveTurn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveTurn {
    /// Stops the turn and waits until its end is in the store, or it turns out
    /// that it has no driver. The first reason counts.
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

#[cfg(test)]
mod tests {
    use wire::workspace::{ChatId, TurnId};

    use super::{Progress, Stop, Turns};

    #[tokio::test]
    async fn nobody_waits_for_a_turn_that_never_came_to_be() {
        let (turns, chat) = (Turns::default(), ChatId::from_random([1; 15]));
        let ids = [1, 2].map(|byte| TurnId::from_random([byte; 15]));
        let [driven, refused] = ids.each_ref().map(|id| turns.enroll(id, &chat));
        assert_eq!(turns.of_chat(&chat).len(), 2);
        driven.publish(Progress::Ended);
        let waiting = tokio::spawn(async move { refused.stop(Stop::Deleted).await });
        for id in &ids {
            turns.strike(id);
        }
        waiting.await.unwrap();
        // One that has ended stays so.
        assert_eq!(*driven.progress().borrow(), Progress::Ended);
    }
}
