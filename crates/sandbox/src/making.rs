//! Making a sandbox: walls and an envd that answers (ahead of time or now), what
//! it starts with, a row, a driver.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use isolate::{Birth, HostUsr, Identities, Instance, Limits, Listen, Network, Plan, Root};
use store::{SandboxRow, StoreError};
use tokio::sync::OwnedSemaphorePermit;
use wire::{Init, SandboxId};

use crate::{
    Envd, EnvdError, Lifetime, NetworkError, Sandbox, TemplateError,
    agent::Agent,
    driver::{Driver, keeper_deadline},
    network::to_column,
    pool::Blank,
    registry::Shared,
    resources::{self, KEPT_FREE_MIB},
};

/// The default template, and the only one of the `process` tier.
pub(crate) const TEMPLATE: &str = "base";
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
    /// What it reaches, if that is not to be what all reach here.
    pub network: Option<Network>,
}

/// Why a sandbox was not made. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is no such template.
    #[error("template `{0}` does not exist; tier `process` has `{TEMPLATE}` alone")]
    NoTemplate(String),
    /// The template cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// It cannot reach what was wished for.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The server is full.
    #[error("the limit of {limit} sandboxes is reached")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The host's disk is nearly full.
    #[error(
        "the host's disk has {free_mib} MiB left, and {KEPT_FREE_MIB} MiB stay free; remove \
         sandboxes, or make room in the server's data directory"
    )]
    DiskFull {
        /// What is left.
        free_mib: u64,
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

/// What a template gives a sandbox.
pub(crate) struct Ground {
    pub(crate) root: Root,
    pub(crate) limits: Limits,
    init: Init,
}

/// What a sandbox starts with, gathered from its template and its caller.
struct Beginning {
    root: Root,
    limits: Limits,
    init: Init,
    network: Network,
}

impl Shared {
    /// Looks the template up, before anything is made.
    pub(crate) fn ground(&self, template: &str) -> Result<Ground, CreateError> {
        let Some(templates) = &self.templates else {
            if template != TEMPLATE {
                return Err(CreateError::NoTemplate(template.to_owned()));
            }
            let (root, init) = (Root::default(), Init::default());
            return Ok(Ground { root, limits: self.limits, init });
        };
        let template = templates.get(template)?;
        let host_usr = template.host_usr_layers.map(|over| HostUsr { over });
        let agent = self.agent.as_ref().and_then(Agent::layer);
        let layers = agent.map(Path::to_owned).into_iter().chain(template.layers).collect();
        Ok(Ground {
            root: Root { layers, host_usr },
            limits: resources::with_memory(self.limits, template.memory_mib),
            init: Init {
                envs: template.defaults.envs,
                user: Some(template.defaults.user),
                workdir: Some(template.defaults.workdir),
            },
        })
    }

    /// Makes a sandbox, from its walls to its driver.
    pub(crate) async fn make(
        self: Arc<Shared>,
        new: NewSandbox,
        ground: Ground,
        room: OwnedSemaphorePermit,
    ) -> Result<Arc<Sandbox>, CreateError> {
        let Ground { root, limits, mut init } = ground;
        init.envs.extend(new.envs);
        let network = self.network_for(new.network)?;
        let beginning = Beginning { root, limits, init, network };
        let started_at = Utc::now();
        let deadline = new.lifetime.from(started_at);
        let Blank { id, network, instance, envd, control, .. } =
            self.claim(beginning, deadline).await?;
        let row = SandboxRow {
            id: id.clone(),
            team: new.team,
            template: new.template,
            tier: self.settings.tier.name().to_owned(),
            metadata: new.metadata,
            started_at,
            deadline,
            network: to_column(&network),
            ended_at: None,
            end_reason: None,
        };
        if let Err(source) = self.office.store.insert_sandbox(&row).await {
            discard(&id, instance.as_ref()).await;
            return Err(CreateError::Store { id, source });
        }
        let (driver, sandbox) =
            Driver::new(row.into(), deadline, network, instance, envd, self.office.clone());
        self.office.tally.sandbox_created();
        self.enlist(driver, &sandbox, control, Some(room));
        Ok(sandbox)
    }

    /// A sandbox that answers and has been told what it starts with: one from
    /// the pool if there is one, else a new one.
    async fn claim(
        self: &Arc<Shared>,
        beginning: Beginning,
        deadline: DateTime<Utc>,
    ) -> Result<Blank, CreateError> {
        let Beginning { root, limits, init, network } = beginning;
        let deadline_ms = keeper_deadline(deadline);
        if let Some(mut blank) = self.take_blank(&root) {
            let told = async {
                blank.envd.init(&init).await.ok()?;
                if blank.network != network {
                    blank.instance.set_network(&network).await.ok()?;
                    blank.network = network.clone();
                }
                blank.instance.set_deadline(deadline_ms).await.ok()
            };
            if told.await.is_some() {
                return Ok(blank);
            }
            // It died while it waited; nobody had seen it.
            discard(&blank.id, blank.instance.as_ref()).await;
        }
        let blank = self.build(root, limits, network, deadline_ms).await?;
        if let Err(source) = blank.envd.init(&init).await {
            discard(&blank.id, blank.instance.as_ref()).await;
            return Err(CreateError::Silent { id: blank.id, source });
        }
        Ok(blank)
    }

    /// Walls with an envd that answers, and its control stream. The stream is
    /// open before a caller can start anything, so that every command is in the
    /// books before its own client hears of it.
    pub(crate) async fn build(
        &self,
        root: Root,
        limits: Limits,
        network: Network,
        deadline_ms: u64,
    ) -> Result<Blank, CreateError> {
        let id = SandboxId::from_random(rand::random());
        let plan = Plan {
            id: &id,
            program: &self.settings.envd,
            arguments: &|birth| self.envd_arguments(&id, birth),
            root: root.clone(),
            limits,
            deadline_ms,
        };
        let built = self.walls.build(plan).await;
        let instance = built.map_err(|source| CreateError::Walls { id: id.clone(), source })?;
        let envd = Envd::new(Arc::clone(&instance));
        // Both wait for the sandbox, and neither for the other.
        let made = match tokio::join!(envd.control(), self.wire(instance.as_ref(), &network)) {
            (Ok(control), Ok(())) => Ok(control),
            (Err(source), _) => Err(CreateError::Silent { id: id.clone(), source }),
            (_, Err(source)) => Err(CreateError::Network(source.into())),
        };
        match made {
            Ok(control) => Ok(Blank { id, root, network, instance, envd, control }),
            Err(err) => {
                discard(&id, instance.as_ref()).await;
                Err(err)
            }
        }
    }

    /// Gives a new sandbox its network. It begins with none.
    async fn wire(&self, instance: &dyn Instance, network: &Network) -> Result<(), isolate::Error> {
        match network {
            Network::Internet { .. } if self.walls.carries_network() => {
                instance.set_network(network).await
            }
            Network::Internet { .. } | Network::None => Ok(()),
        }
    }

    fn envd_arguments(&self, id: &SandboxId, birth: &Birth) -> Vec<String> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut arguments = vec!["envd".to_owned()];
        match birth.listen {
            Listen::Descriptor(number) => {
                arguments.extend(["--listen-fd".to_owned(), number.to_string()]);
            }
            Listen::Tunnel => arguments.push("--tunnel".to_owned()),
        }
        for group in &birth.groups {
            arguments.extend(["--group-fd".to_owned(), group.to_string()]);
        }
        if let Some(memory) = birth.memory {
            arguments.extend(["--memory-fd".to_owned(), memory.to_string()]);
        }
        if let Some(home) = &birth.home {
            arguments.extend(["--home".to_owned(), text(home)]);
        }
        match birth.identities {
            Identities::Many => {}
            Identities::One => arguments.push("--one-user".to_owned()),
        }
        if let Some(jexec) = &self.settings.jexec {
            let jail = format!("e2b-{id}");
            for part in [text(jexec).as_str(), "-l", "-U", "root", &jail] {
                arguments.extend(["--wrap".to_owned(), part.to_owned()]);
            }
        }
        arguments
    }
}

/// Takes down what was never handed out.
pub(crate) async fn discard(id: &SandboxId, instance: &dyn Instance) {
    if let Err(left) = instance.kill().await {
        tracing::error!(sandbox.id = %id, "sandbox {id} was not removed whole: {left}");
    }
}
