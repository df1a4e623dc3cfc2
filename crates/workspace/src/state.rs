//! What every route of the workspace shares.

use std::sync::Arc;

use http_kit::Keys;
use store::{Blobs, Store};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    keyring::Keyring, runner::RunnerClient, settings::Settings, turn::Turns, workflows::Executions,
};

/// A workspace. Clones are the same one.
#[derive(Clone)]
pub struct Workspace {
    pub(crate) store: Store,
    pub(crate) blobs: Blobs,
    pub(crate) keys: Keys,
    pub(crate) keyring: Keyring,
    pub(crate) settings: Arc<Settings>,
    pub(crate) runner: RunnerClient,
    /// Turns that are under way here.
    pub(crate) turns: Turns,
    /// Executions that are under way here.
    pub(crate) executions: Executions,
    /// Every task of the workspace: turns, executions, housekeeping.
    pub(crate) tasks: TaskTracker,
    /// Tells them to stop.
    pub(crate) closing: CancellationToken,
}

impl Workspace {
    /// A workspace with these settings. Nothing runs before `take_up`.
    pub fn new(settings: Settings) -> Workspace {
        Workspace {
            store: settings.store.clone(),
            blobs: settings.blobs.clone(),
            keys: settings.keys.clone(),
            keyring: Keyring::new(&settings.secret),
            settings: Arc::new(settings),
            runner: RunnerClient::new(),
            turns: Turns::default(),
            executions: Executions::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Goes on with what a former server left. For when this one serves: runs
    /// are followed over HTTP, and the runner may be this server's own.
    pub async fn take_up(&self) {
        self.take_up_executions().await;
        self.take_up_turns().await;
        self.keep_house();
    }

    /// Stops every task and waits until all have.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.blobs.close().await;
    }
}
