//! Nothing is kept for ever: logs of what ended long ago go, and sessions of
//! harnesses that nobody took up since, at the start and hourly.

use std::{sync::Arc, time::Duration};

use chrono::Utc;

use crate::{link, office::Office};

const EVERY: Duration = Duration::from_secs(3600);

impl Office {
    /// Prunes now and from time to time, until the server stops.
    pub(crate) fn prune_regularly(self: &Arc<Office>) {
        let office = Arc::clone(self);
        self.tasks.spawn(async move {
            let stop = office.stop.clone();
            loop {
                office.prune().await;
                office.prune_sessions().await;
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(EVERY) => {}
                }
            }
        });
    }

    async fn prune(&self) {
        let old = match self.store.prune_runs(Utc::now() - self.keep).await {
            Ok(old) => old,
            Err(err) => return tracing::warn!("old runs could not be forgotten: {err}"),
        };
        for id in old {
            let (shelf, run) = (self.shelf.clone(), id.clone());
            let removed = tokio::task::spawn_blocking(move || shelf.remove(&run)).await;
            match removed {
                Ok(Ok(())) => {}
                Ok(Err(err)) => tracing::warn!(run.id = %id, "the log of {id} is left: {err}"),
                Err(err) => tracing::error!(run.id = %id, "removing the log of {id} broke: {err}"),
            }
        }
    }

    async fn prune_sessions(&self) {
        let (runs, until) = (self.shelf.directory().to_owned(), Utc::now() - self.keep);
        let pruned = tokio::task::spawn_blocking(move || link::prune_sessions(&runs, until.into()));
        match pruned.await {
            Ok(Ok(())) => {}
            Ok(Err(err)) => tracing::warn!("old sessions could not be removed: {err}"),
            Err(err) => tracing::error!("removing old sessions broke: {err}"),
        }
    }
}
