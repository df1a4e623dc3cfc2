//! All sandboxes of this server: making them, finding them, ending them all.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{TimeDelta, Utc};
use isolate::{Process, Tier};
use store::{SandboxRow, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use wire::{Init, SandboxId};

use crate::{
    Envd, EnvdError, Lifetime, Resources, Sandbox, Tally,
    driver::{Driver, EndReason, Facts, Office},
};

/// How long the row of a sandbox that ended is kept.
const RETENTION: TimeDelta = TimeDelta::days(7);
/// The one template of the `process` tier.
const TEMPLATE: &str = "base";

/// What an operator decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where sandboxes keep their files.
    pub directory: PathBuf,
    /// How strong the walls are.
    pub tier: Tier,
    /// The envd to start in each.
    pub envd: PathBuf,
    /// FreeBSD's `jexec`, where it exists: commands are wrapped in it.
    pub jexec: Option<PathBuf>,
    /// How many may live at once.
    pub max_sandboxes: usize,
}

/// What a caller decides.
#[derive(Clone, Debug)]
pub struct NewSandbox {
    /// The owner.
    pub team: String,
    /// What to make it from.
    pub template: String,
    /// How long it may live.
    pub lifetime: Lifetime,
    /// The caller's own labels.
    pub metadata: BTreeMap<String, String>,
    /// Variables every command starts with.
    pub envs: BTreeMap<String, String>,
}

/// Why a sandbox was not made. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is no such template.
    #[error("template `{0}` is not built; this version has `{TEMPLATE}`")]
    NoTemplate(String),
    /// The server is full.
    #[error("the limit of {limit} sandboxes is reached")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The server stops.
    #[error("the server is shutting down")]
    Closing,
    /// The walls could not be built.
    #[error("sandbox `{id}` did not start")]
    Walls {
        /// Its name would have been.
        id: SandboxId,
        /// Why not.
        source: isolate::Error,
    },
    /// It started and did not answer.
    #[error("sandbox `{id}` did not come up")]
    Silent {
        /// Its name would have been.
        id: SandboxId,
        /// Why not.
        source: EnvdError,
    },
    /// It could not be written down.
    #[error("sandbox `{id}` could not be stored")]
    Store {
        /// Its name would have been.
        id: SandboxId,
        /// Why not.
        source: StoreError,
    },
    /// The task that made it broke.
    #[error("making the sandbox was interrupted")]
    Interrupted,
}

/// The registry. Cheap to clone.
#[derive(Clone)]
pub struct Sandboxes {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    resources: Resources,
    walls: Process,
    living: Mutex<HashMap<SandboxId, Arc<Sandbox>>>,
    room: Arc<Semaphore>,
    office: Office,
}

impl Sandboxes {
    /// Opens the registry and writes down the end of whatever a former life left.
    pub async fn open(settings: Settings, store: Store) -> Result<Sandboxes, isolate::Error> {
        let walls = Process::open(settings.directory.clone())?;
        let now = Utc::now();
        match store.living_sandboxes().await {
            Ok(rows) => {
                for row in rows {
                    if let Err(err) = store.end_sandbox(&row.id, EndReason::Lost.name(), now).await
                    {
                        tracing::error!("the end of sandbox {} was not stored: {err}", row.id);
                    }
                }
            }
            Err(err) => tracing::error!("former sandboxes could not be read: {err}"),
        }
        if let Err(err) = store.prune_sandboxes(now - RETENTION).await {
            tracing::warn!("old sandboxes could not be forgotten: {err}");
        }
        let shared = Shared {
            room: Arc::new(Semaphore::new(settings.max_sandboxes)),
            resources: Resources::of_host(&settings.directory),
            settings,
            walls,
            living: Mutex::default(),
            office: Office {
                store,
                tally: Arc::default(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
            },
        };
        Ok(Sandboxes { shared: Arc::new(shared) })
    }

    /// Makes a sandbox. A caller that goes away abandons its wait, not the making:
    /// the sandbox then lives until its deadline.
    pub async fn create(&self, new: NewSandbox) -> Result<Arc<Sandbox>, CreateError> {
        if new.template != TEMPLATE {
            return Err(CreateError::NoTemplate(new.template));
        }
        let room = Arc::clone(&self.shared.room).try_acquire_owned();
        let room = room.map_err(|err| match err {
            TryAcquireError::NoPermits => {
                CreateError::Full { limit: self.shared.settings.max_sandboxes }
            }
            TryAcquireError::Closed => CreateError::Closing,
        })?;
        let shared = Arc::clone(&self.shared);
        let making = self.shared.office.tasks.spawn(async move { shared.make(new, room).await });
        making.await.unwrap_or(Err(CreateError::Interrupted))
    }

    /// A living sandbox, whoever owns it.
    pub fn get(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.shared.living.lock().ok()?.get(id).cloned()
    }

    /// A living sandbox of this team.
    pub fn get_owned(&self, id: &SandboxId, team: &str) -> Option<Arc<Sandbox>> {
        self.get(id).filter(|sandbox| sandbox.team() == team)
    }

    /// The team's living sandboxes, in no order.
    pub fn list(&self, team: &str) -> Vec<Arc<Sandbox>> {
        let Ok(living) = self.shared.living.lock() else { return Vec::new() };
        living.values().filter(|sandbox| sandbox.team() == team).cloned().collect()
    }

    /// How many live.
    pub fn count(&self) -> usize {
        self.shared.living.lock().map_or(0, |living| living.len())
    }

    /// What a sandbox may use.
    pub fn resources(&self) -> Resources {
        self.shared.resources
    }

    /// The server's counters.
    pub fn tally(&self) -> &Tally {
        &self.shared.office.tally
    }

    /// Runs `work` to its end, whether or not somebody waits for it.
    pub fn detach<F>(&self, work: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.shared.office.tasks.spawn(work)
    }

    /// Ends every sandbox and returns when nothing of them is left, or says
    /// how many tasks did not end within `grace`.
    pub async fn close(&self, grace: Duration) {
        self.shared.room.close();
        self.shared.office.stop.cancel();
        self.shared.office.tasks.close();
        let all_ended = async {
            self.shared.office.tasks.wait().await;
            self.shared.walls.close().await;
        };
        if tokio::time::timeout(grace, all_ended).await.is_err() {
            tracing::error!("{} tasks of sandboxes did not end", self.shared.office.tasks.len());
        }
    }
}

impl Shared {
    async fn make(
        self: Arc<Shared>,
        new: NewSandbox,
        room: OwnedSemaphorePermit,
    ) -> Result<Arc<Sandbox>, CreateError> {
        let id = SandboxId::from_random(rand::random());
        let walls = |source| CreateError::Walls { id: id.clone(), source };
        let prepared = self.walls.prepare(&id).map_err(walls)?;
        let argv = self.envd_command(&id, prepared.home());
        let instance = Arc::new(prepared.start(&argv).map_err(walls)?);
        let envd = Envd::new(Arc::clone(&instance));
        let started_at = Utc::now();
        let row = SandboxRow {
            id: id.clone(),
            team: new.team,
            template: new.template,
            tier: self.settings.tier.name().to_owned(),
            metadata: new.metadata,
            started_at,
            deadline: new.lifetime.from(started_at),
            ended_at: None,
            end_reason: None,
        };
        let come_up = async {
            let silent = |source| CreateError::Silent { id: id.clone(), source };
            envd.init(&Init { envs: new.envs }).await.map_err(silent)?;
            // Open before the caller can start anything, so that every command
            // is in the books before its own client hears of it.
            let control = envd.control().await.map_err(silent)?;
            let unstored = |source| CreateError::Store { id: id.clone(), source };
            self.office.store.insert_sandbox(&row).await.map_err(unstored)?;
            Ok(control)
        };
        let control = match come_up.await {
            Ok(control) => control,
            Err(err) => {
                if let Err(left) = instance.kill().await {
                    tracing::error!(sandbox.id = %id, "sandbox {id} was not removed whole: {left}");
                }
                return Err(err);
            }
        };
        let facts = Facts {
            id: row.id,
            team: row.team,
            template: row.template,
            metadata: row.metadata,
            started_at,
        };
        let (driver, sandbox) =
            Driver::new(facts, row.deadline, instance, envd, self.office.clone());
        if let Ok(mut living) = self.living.lock() {
            living.insert(id, Arc::clone(&sandbox));
        }
        self.office.tally.sandbox_created();
        let shared = Arc::clone(&self);
        self.office.tasks.spawn(async move {
            driver.run(control, |id| shared.forget(id)).await;
            drop(room);
        });
        Ok(sandbox)
    }

    fn forget(&self, id: &SandboxId) {
        if let Ok(mut living) = self.living.lock() {
            living.remove(id);
        }
    }

    fn envd_command(&self, id: &SandboxId, home: PathBuf) -> Vec<String> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut argv = vec![
            text(&self.settings.envd),
            "--listen-fd".to_owned(),
            Process::LISTEN_FD.to_string(),
            "--home".to_owned(),
            text(&home),
        ];
        if let Some(jexec) = &self.settings.jexec {
            let jail = format!("e2b-{id}");
            for part in [text(jexec).as_str(), "-l", "-U", "root", &jail] {
                argv.extend(["--wrap".to_owned(), part.to_owned()]);
            }
        }
        argv
    }
}
