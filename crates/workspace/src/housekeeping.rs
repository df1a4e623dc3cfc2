//! What goes by itself, looked after now and then: uploads whose server was
//! killed, sessions and events of what ended long ago.
//!
//! Messages stay, and so do the contents of deleted files: deleting is soft,
//! here as in the rows.

use std::time::Duration;

use chrono::TimeDelta;
use store::StoreError;
use tokio::time::MissedTickBehavior;

use crate::{clock, state::Workspace};

/// How often there is a look.
const EVERY: Duration = Duration::from_secs(60 * 60);
/// Age from which on nobody is working on a reservation any more.
const STALE: TimeDelta = TimeDelta::hours(1);

impl Workspace {
    /// Keeps house until the workspace closes.
    pub(crate) fn keep_house(&self) {
        let workspace = self.clone();
        self.tasks.spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = workspace.closing.cancelled() => return,
                    _ = ticks.tick() => {}
                }
                match round(&workspace).await {
                    Ok(Removed { uploads: 0, sessions: 0, events: 0 }) => {}
                    Ok(Removed { uploads, sessions, events }) => {
                        tracing::info!(uploads, sessions, events, "removed what is kept no longer");
                    }
                    Err(err) => tracing::warn!("what is kept no longer was not removed: {err}"),
                }
            }
        });
    }
}

/// What one round removed.
struct Removed {
    uploads: usize,
    sessions: u64,
    events: u64,
}

async fn round(workspace: &Workspace) -> Result<Removed, StoreError> {
    let uploads = sweep(workspace).await?;
    // A time before all times is the same as none: everything is kept.
    let Some(before) = clock::now().checked_sub_signed(workspace.settings.keep) else {
        return Ok(Removed { uploads, sessions: 0, events: 0 });
    };
    let events = workspace.store.prune_streams(before).await?;
    let sessions = workspace.store.prune_sessions(before).await?;
    Ok(Removed { uploads, sessions, events })
}

/// Removes reservations that are older than any upload may take, with their
/// blobs, and says how many there were.
async fn sweep(workspace: &Workspace) -> Result<usize, StoreError> {
    let stale = workspace.store.stale_reservations(clock::now() - STALE).await?;
    let mut gone = Vec::new();
    for (id, storage_key) in stale {
        // The blob first: a name that is free may be taken again at once.
        match workspace.blobs.delete(&storage_key).await {
            Ok(()) => gone.push(id),
            Err(err) => {
                tracing::warn!(file.id = %id, cause = %err, "a blob could not be removed");
            }
        }
    }
    workspace.store.drop_reserved(&gone).await?;
    Ok(gone.len())
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use bytes::Bytes;
    use chrono::TimeDelta;
    use futures_util::stream;
    use http_kit::Keys;
    use store::{Blobs, FileSource, Reserved, Shelf, Store};
    use wire::{Secret, workspace::FileId};

    use super::sweep;
    use crate::{RunnerAddress, RunnerKey, Settings, Workspace, clock};

    #[tokio::test]
    async fn what_is_stale_goes_and_what_is_under_way_stays() {
        let data = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(Settings {
            store: Store::open(data.path()).await.unwrap(),
            blobs: Blobs::disk(&data.path().join("blobs")).unwrap(),
            keys: Keys::open_door(),
            secret: Secret::new([7; 32]),
            base_url: String::new(),
            runner: RunnerAddress { url: String::new(), key: RunnerKey::None },
            max_runtime: Duration::ZERO,
            bag_url_ttl: Duration::ZERO,
            listener_grace: Duration::ZERO,
            keep: TimeDelta::zero(),
        });
        let reserve = async |byte: u8, age: TimeDelta| -> Reserved {
            let id = FileId::from_random([byte; 15]);
            let (shelf, at) = (Shelf::Files, clock::now() - age);
            let store = &workspace.store;
            let key_of = |name: &str| format!("workspace-files/red/{name}");
            let reserved = store.reserve_file("red", shelf, id, "a", FileSource::User, at, key_of);
            let reserved = reserved.await.unwrap();
            let bytes = stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"x"))]);
            workspace.blobs.put(&reserved.storage_key, bytes, 1).await.unwrap();
            reserved
        };
        let stale = reserve(1, TimeDelta::minutes(61)).await;
        let fresh = reserve(2, TimeDelta::minutes(59)).await;
        assert_eq!(sweep(&workspace).await.unwrap(), 1);
        assert!(workspace.blobs.get(&stale.storage_key).await.is_err());
        assert!(workspace.blobs.get(&fresh.storage_key).await.is_ok());
        assert_eq!(sweep(&workspace).await.unwrap(), 0);
        // Its name is free again, and the other's is not.
        assert_eq!(reserve(3, TimeDelta::zero()).await.name, "a");
        assert_eq!(reserve(4, TimeDelta::zero()).await.name, "a-2");
    }
}
