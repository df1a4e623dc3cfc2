//! What all runs share, the list of the living ones, and the server's start and
//! stop.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use chrono::TimeDelta;
use http_kit::{Exposition, Keys};
use sandbox::{Closing, Sandboxes};
use store::{OnDisconnect, Store};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use wire::{Secret, agent::ModelConfig, run::RunId};

use crate::{
    hooks::ServerHook,
    link::{AddressPolicy, Outbound, OutboundError, Sessions},
    log::Shelf,
    run::{Order, Run},
    tally::Tally,
};

/// What an operator decides.
pub struct Settings {
    /// Where runs keep their logs.
    pub directory: PathBuf,
    /// Where runs happen.
    pub sandboxes: Sandboxes,
    /// Where they are written down.
    pub store: Store,
    /// Who may come in.
    pub keys: Keys,
    /// Longest time of one run.
    pub max_runtime: Duration,
    /// How long the log of a run that ended is kept.
    pub keep: TimeDelta,
    /// Which addresses a run's upstreams may have.
    pub addresses: AddressPolicy,
    /// What seals the secrets of runs that outlive the server.
    pub seal_key: Secret<[u8; 32]>,
    /// Who answers a client of `/agui` that names no model.
    pub model: Option<ModelConfig>,
    /// Who is told of the files that change in every run.
    pub file_hook: Option<String>,
}

/// The runner could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory of the logs.
    #[error("the directory of the runs cannot be used")]
    Directory(#[from] io::Error),
    /// The way out.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
}

/// The agent front door. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    pub(crate) office: Arc<Office>,
    pub(crate) keys: Keys,
}

/// What all runs share.
pub(crate) struct Office {
    pub(crate) sandboxes: Sandboxes,
    pub(crate) store: Store,
    pub(crate) shelf: Shelf,
    pub(crate) outbound: Outbound,
    pub(crate) seal_key: Secret<[u8; 32]>,
    pub(crate) model: Option<ModelConfig>,
    pub(crate) file_hook: Option<ServerHook>,
    pub(crate) max_runtime: Duration,
    pub(crate) keep: TimeDelta,
    pub(crate) tally: Tally,
    pub(crate) tasks: TaskTracker,
    /// Ends the tasks that are no runs.
    pub(crate) stop: CancellationToken,
    closed: AtomicBool,
    living: Mutex<HashMap<RunId, Arc<Run>>>,
}

impl Runner {
    /// Opens the door: takes up the runs that outlived a former server, and
    /// writes down the end of those that did not.
    pub async fn open(settings: Settings) -> Result<Runner, OpenError> {
        let office = Arc::new(Office {
            shelf: Shelf::open(settings.directory)?,
            outbound: Outbound::new(settings.addresses)?,
            sandboxes: settings.sandboxes,
            store: settings.store,
            seal_key: settings.seal_key,
            model: settings.model,
            file_hook: settings.file_hook.map(ServerHook::new).transpose()?,
            max_runtime: settings.max_runtime,
            keep: settings.keep,
            tally: Tally::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            closed: AtomicBool::new(false),
            living: Mutex::default(),
        });
        office.recover().await;
        office.prune_regularly();
        Ok(Runner { office, keys: settings.keys })
    }

    /// Adds the runs' series to a scrape.
    pub fn expose(&self, text: &mut Exposition) {
        self.office.tally.expose(text);
    }

    /// Stops. Runs that are to continue are left to the next server, if their
    /// sandboxes are; the others end as cancelled. Returns when all have, or says
    /// how many did not within `grace`. Sandboxes are closed after this.
    pub async fn close(&self, closing: Closing, grace: Duration) {
        let office = &self.office;
        office.closed.store(true, Ordering::SeqCst);
        for run in office.living() {
            office.ask_to_stop(&run, closing);
        }
        office.stop.cancel();
        office.tasks.close();
        if tokio::time::timeout(grace, office.tasks.wait()).await.is_err() {
            tracing::error!("{} tasks of runs did not end", office.tasks.len());
        }
    }
}

impl Office {
    /// Lets everybody find the run. One that comes while the server stops is
    /// asked to stop too.
    pub(crate) fn enlist(&self, run: &Arc<Run>) {
        if let Ok(mut living) = self.living.lock() {
            living.insert(run.row().id.clone(), Arc::clone(run));
        }
        if self.is_closed() {
            self.ask_to_stop(run, Closing::Destroy);
        }
    }

    /// Takes it out again.
    pub(crate) fn forget(&self, id: &RunId) {
        if let Ok(mut living) = self.living.lock() {
            living.remove(id);
        }
    }

    /// The sessions of harnesses that a team has.
    pub(crate) fn sessions_of(&self, team: &str) -> Sessions {
        Sessions::of_team(self.shelf.directory(), team)
    }

    /// A living run.
    pub(crate) fn get(&self, id: &RunId) -> Option<Arc<Run>> {
        self.living.lock().ok()?.get(id).cloned()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn living(&self) -> Vec<Arc<Run>> {
        self.living.lock().map_or_else(|_| Vec::new(), |living| living.values().cloned().collect())
    }

    fn ask_to_stop(&self, run: &Run, closing: Closing) {
        let stays = closing == Closing::Leave
            && run.row().on_disconnect == OnDisconnect::Continue
            && self.sandboxes.outlive_server();
        run.ask(if stays { Order::Leave } else { Order::Cancel("the server stopped") });
    }
}
