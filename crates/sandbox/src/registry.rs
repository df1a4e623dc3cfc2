//! All sandboxes of this server: making them, finding them, ending them all.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use hyper::body::Incoming;
use isolate::{Limits, Native, Network, Oci, Privilege, Process, Runtime, Tier, Walls, Wired};
use store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use wire::SandboxId;

use crate::{
    AgentError, CreateError, NewSandbox, Resources, Sandbox, Tally, TemplateError, Templates,
    agent::Agent,
    driver::{Driver, Office},
    pool::Pool,
    resources,
};

/// What an operator decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where sandboxes keep their files.
    pub directory: PathBuf,
    /// Where templates are, for tiers that have a file tree of their own.
    pub templates: PathBuf,
    /// How strong the walls are.
    pub tier: Tier,
    /// The envd to start in each.
    pub envd: PathBuf,
    /// The keeper to start beside each, for tiers that have one.
    pub keeper: PathBuf,
    /// The agent that runs are made with, when there is one.
    pub agent: Option<PathBuf>,
    /// Where the agent's layers are, for tiers that have a file tree of their own.
    pub agent_layers: PathBuf,
    /// FreeBSD's `jexec`, where it exists: commands are wrapped in it.
    pub jexec: Option<PathBuf>,
    /// How many may live at once.
    pub max_sandboxes: usize,
    /// Size of a sandbox's disk; 0 is no limit but the host's.
    pub disk_mib: u32,
    /// How many are made ahead of time.
    pub pool: usize,
    /// How sandboxes reach the internet, if they do. Only the native tier has it.
    pub wired: Option<Wired>,
}

/// The registry could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SandboxesError {
    /// The walls.
    #[error("the tier cannot be had here")]
    Walls(#[from] isolate::Error),
    /// The templates.
    #[error("the templates cannot be used")]
    Templates(#[from] TemplateError),
    /// The agent.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// What becomes of the sandboxes when the server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Those that can go on without us do.
    Leave,
    /// All end.
    Destroy,
}

/// The registry. Cheap to clone.
#[derive(Clone)]
pub struct Sandboxes {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) walls: Box<dyn Walls>,
    /// What sandboxes are made from, in tiers with a file tree of their own.
    pub(crate) templates: Option<Templates>,
    /// Who does the work of a run.
    pub(crate) agent: Option<Agent>,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) pool: Pool,
    pub(crate) office: Office,
    /// What each may use.
    pub(crate) limits: Limits,
    resources: Resources,
    living: Mutex<HashMap<SandboxId, Arc<Sandbox>>>,
}

impl Sandboxes {
    /// Opens the registry, takes in the sandboxes that outlived a former
    /// server, and writes down the end of those that did not.
    pub async fn open(settings: Settings, store: Store) -> Result<Sandboxes, SandboxesError> {
        let directory = settings.directory.clone();
        let (walls, templates): (Box<dyn Walls>, _) = match settings.tier {
            Tier::Process => (Box::new(Process::open(directory)?), None),
            Tier::Native => {
                let templates = Templates::open(settings.templates.clone())?;
                let wired = settings.wired.clone();
                let native = Native::open(directory, settings.keeper.clone(), wired)?;
                (Box::new(native), Some(templates))
            }
            Tier::Gvisor => {
                let templates = Templates::open(settings.templates.clone())?;
                (Box::new(Oci::open(directory, Runtime::Runsc)?), Some(templates))
            }
            Tier::Runc => {
                let templates = Templates::open(settings.templates.clone())?;
                (Box::new(Oci::open(directory, Runtime::Runc)?), Some(templates))
            }
        };
        let agent = match &settings.agent {
            None => None,
            Some(program) if settings.tier.has_walls() => {
                Some(Agent::in_layer(program, &settings.agent_layers)?)
            }
            Some(program) => Some(Agent::Host(program.clone())),
        };
        let limits = resources::limits(walls.as_ref(), settings.tier, settings.disk_mib)?;
        let shared = Arc::new(Shared {
            agent,
            room: Arc::new(Semaphore::new(settings.max_sandboxes)),
            pool: Pool::new(settings.pool),
            resources: match (settings.tier, Privilege::of_process()) {
                (Tier::Process, _) | (Tier::Native, Privilege::User) => {
                    Resources::of_host(&settings.directory)
                }
                (Tier::Native | Tier::Gvisor | Tier::Runc, _) => {
                    Resources::of_limits(limits, &settings.directory)
                }
            },
            limits,
            settings,
            walls,
            templates,
            living: Mutex::default(),
            office: Office {
                store,
                tally: Arc::default(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
                leave: CancellationToken::new(),
            },
        });
        shared.recover().await?;
        shared.prune_layers();
        shared.fill_pool();
        Ok(Sandboxes { shared })
    }

    /// Makes a sandbox. A caller that goes away abandons its wait, not the making:
    /// the sandbox then lives until its deadline.
    pub async fn create(&self, new: NewSandbox) -> Result<Arc<Sandbox>, CreateError> {
        let ground = self.shared.ground(&new.template)?;
        self.shared.network_for(new.network.clone())?;
        let free_mib = resources::free_mib(&self.shared.settings.directory);
        if free_mib < resources::KEPT_FREE_MIB {
            return Err(CreateError::DiskFull { free_mib });
        }
        let room = Arc::clone(&self.shared.room).try_acquire_owned();
        let room = room.map_err(|err| match err {
            TryAcquireError::NoPermits => {
                CreateError::Full { limit: self.shared.settings.max_sandboxes }
            }
            TryAcquireError::Closed => CreateError::Closing,
        })?;
        let shared = Arc::clone(&self.shared);
        let making =
            self.shared.office.tasks.spawn(async move { shared.make(new, ground, room).await });
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

    /// What sandboxes reach whose callers say nothing.
    pub fn default_network(&self) -> Network {
        self.shared.default_network()
    }

    /// How many wait to be claimed.
    pub fn pooled(&self) -> usize {
        self.shared.pool.ready()
    }

    /// The agent's program, as seen in a sandbox; `None` when there is no agent.
    pub fn agent_path(&self) -> Option<PathBuf> {
        self.shared.agent.as_ref().map(Agent::path)
    }

    /// Who an agent runs as: root where that is the sandbox's own, else whoever
    /// the server is.
    pub fn agent_user(&self) -> Option<&'static str> {
        self.shared.settings.tier.has_walls().then_some("root")
    }

    /// That user's home, as seen in a sandbox.
    pub fn agent_home(&self, id: &SandboxId) -> PathBuf {
        if self.shared.settings.tier.has_walls() {
            return PathBuf::from("/root");
        }
        // Without walls everybody in it has the one home that the tier made.
        self.shared.settings.directory.join(id.as_str()).join("home")
    }

    /// Whether sandboxes of this tier live on when this server stops.
    pub fn outlive_server(&self) -> bool {
        self.shared.walls.outlives_server()
    }

    /// Whether sandboxes are made from templates. Without them they show the host,
    /// and `base` is only a name for that.
    pub fn have_templates(&self) -> bool {
        self.shared.templates.is_some()
    }

    /// What a sandbox of this template may use. One whose template is gone was
    /// made with what most get.
    pub fn resources(&self, template: &str) -> Resources {
        let all = self.shared.resources;
        match &self.shared.templates {
            // Memory is limited as most have it, so a template's own limit holds too.
            Some(templates) if all.memory_mib == self.shared.limits.memory_mib => {
                let own = templates.get(template).ok().and_then(|template| template.memory_mib);
                Resources { memory_mib: own.unwrap_or(all.memory_mib), ..all }
            }
            Some(_) | None => all,
        }
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

    /// Stops. Sandboxes that can outlive a server are left alone unless they
    /// are to be destroyed. Returns when nothing else is left, or says how many
    /// tasks did not end within `grace`.
    pub async fn close(&self, closing: Closing, grace: Duration) {
        let office = &self.shared.office;
        self.shared.room.close();
        match closing {
            Closing::Leave if self.shared.walls.outlives_server() => office.leave.cancel(),
            Closing::Leave | Closing::Destroy => office.stop.cancel(),
        }
        office.tasks.close();
        let all_ended = async {
            office.tasks.wait().await;
            self.shared.empty_pool().await;
            // Those that are left still need what the host keeps for them.
            if !office.leave.is_cancelled() || self.count() == 0 {
                self.shared.walls.close().await;
            }
        };
        if tokio::time::timeout(grace, all_ended).await.is_err() {
            tracing::error!("{} tasks of sandboxes did not end", office.tasks.len());
        }
    }
}

impl Shared {
    /// Lets a driver live the sandbox's life, and everybody find it.
    pub(crate) fn enlist(
        self: &Arc<Shared>,
        driver: Driver,
        sandbox: &Arc<Sandbox>,
        control: Incoming,
        room: Option<OwnedSemaphorePermit>,
    ) {
        if let Ok(mut living) = self.living.lock() {
            living.insert(sandbox.id().clone(), Arc::clone(sandbox));
        }
        let shared = Arc::clone(self);
        self.office.tasks.spawn(async move {
            driver.run(control, |id| shared.forget(id)).await;
            drop(room);
        });
    }

    fn forget(&self, id: &SandboxId) {
        if let Ok(mut living) = self.living.lock() {
            living.remove(id);
        }
    }
}
