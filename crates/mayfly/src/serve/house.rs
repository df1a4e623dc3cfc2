//! The parts, put together: store behind sandboxes behind the front door.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use gateway::Gateway;
use http_kit::{Keys, Team};
use isolate::Tier;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runner::Runner;
use runner::link::SEAL_LABEL;
use sandbox::{AccessTokens, Closing, Sandboxes};
use store::{Blobs, Store};
use wire::Secret;
use workspace::{RunnerAddress, RunnerKey, Workspace};

use super::{cors, document, network, signals::Stop};
use crate::config::{Access, Network, OtherRunner, ServeConfig, WebOrigin};

/// Held by the server that uses a data directory.
const LOCK_FILE: &str = "serve.lock";

/// The label under which the keys for our own runner are derived.
const OWN_RUNNER: &str = "mayfly workspace at its own runner";

/// What runs behind the listener.
pub(super) struct House {
    sandboxes: Sandboxes,
    gateway: Gateway,
    runner: Runner,
    workspace: Workspace,
    network: Network,
    cors_origins: Vec<WebOrigin>,
}

impl House {
    /// Puts the parts together and clears away what a former life left. The
    /// server listens on `address`.
    pub(super) async fn build(
        config: &ServeConfig,
        store: &Store,
        address: SocketAddr,
    ) -> anyhow::Result<House> {
        // Keepers and layers are named to processes that live elsewhere.
        let data = std::path::absolute(&config.data)?;
        let directory = data.join("sandboxes");
        let (network, wired) = network::wire(&config.network, &directory)?;
        let settings = sandbox::Settings {
            directory,
            templates: data.join("templates"),
            tier: config.tier,
            envd: std::path::absolute(&config.envd)?,
            keeper: std::path::absolute(&config.keeper)?,
            agent: config.agent.as_deref().map(std::path::absolute).transpose()?,
            agent_layers: data.join("agents"),
            // The other tiers have walls of their own.
            jexec: config.jexec.clone().filter(|_| config.tier == Tier::Process),
            max_sandboxes: usize::try_from(config.max_sandboxes)?,
            disk_mib: config.disk_mib,
            pool: usize::try_from(config.pool)?,
            wired,
        };
        let sandboxes = Sandboxes::open(settings, store.clone()).await?;
        let tokens = AccessTokens::from_file(&config.data.join("server.key"))?;
        let own_runner = tokens.derive(OWN_RUNNER);
        let keys = keys(config, store, &own_runner);
        let blobs = match &config.blobs {
            Some(url) => Blobs::s3(&url.0)?,
            None => Blobs::disk(&data.join("blobs"))?,
        };
        // Now, and not when the first file comes.
        blobs.check().await.context("files cannot be stored")?;
        let workspace = Workspace::new(workspace::Settings {
            store: store.clone(),
            blobs,
            keys: keys.clone(),
            secret: tokens.derive("mayfly workspace"),
            base_url: base_url(config, address),
            runner: runner_address(config, address, own_runner),
            max_runtime: config.max_runtime,
            bag_url_ttl: config.bag_url_ttl,
            listener_grace: config.listener_grace,
            keep: config.keep_runs,
        });
        let runner = Runner::open(runner::Settings {
            directory: data.join("runs"),
            sandboxes: sandboxes.clone(),
            store: store.clone(),
            keys: keys.clone(),
            max_runtime: config.max_runtime,
            keep: config.keep_runs,
            addresses: config.callbacks.clone(),
            seal_key: tokens.derive(SEAL_LABEL),
            model: config.model.clone(),
            file_hook: config.file_hook.as_ref().map(|hook| hook.0.expose().clone()),
        })
        .await?;
        let runs = runner.clone();
        let gateway = Gateway::new(gateway::Settings {
            sandboxes: sandboxes.clone(),
            keys,
            tokens,
            domain: config.domain.clone(),
            more_metrics: Arc::new(move |text| runs.expose(text)),
        });
        let cors_origins = config.cors_origins.clone();
        Ok(House { sandboxes, gateway, runner, workspace, network, cors_origins })
    }

    /// What sandboxes reach, as it turned out.
    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    pub(super) fn router(&self) -> Router {
        let (runner, runs) = runner::router(self.runner.clone());
        let (workspace, things) = workspace::router(self.workspace.clone());
        let described = document::routes([gateway::document(), runs, things]);
        let beside = runner.merge(workspace).merge(described);
        let cors = cors::layer(&self.cors_origins);
        gateway::router(self.gateway.clone(), beside, |routes| match cors {
            Some(cors) => routes.layer(cors),
            None => routes,
        })
    }

    /// Goes on with what a former life of the server began.
    pub(super) async fn take_up(&self) {
        self.workspace.take_up().await;
    }

    /// Ends or leaves the runs and the sandboxes after `stop`.
    pub(super) fn end_on(&self, stop: Stop, grace: Duration) -> impl Future<Output = ()> + use<> {
        let (workspace, runner) = (self.workspace.clone(), self.runner.clone());
        let sandboxes = self.sandboxes.clone();
        async move {
            let closing = stop.wished().await;
            workspace.close().await;
            runner.close(closing, grace).await;
            sandboxes.close(closing, grace).await;
        }
    }

    /// Ends every sandbox and says how many there were.
    pub(super) async fn end_all(&self, grace: Duration) -> usize {
        let count = self.sandboxes.count();
        self.workspace.close().await;
        self.runner.close(Closing::Destroy, grace).await;
        self.sandboxes.close(Closing::Destroy, grace).await;
        count
    }
}

fn keys(config: &ServeConfig, store: &Store, own_runner: &Secret<[u8; 32]>) -> Keys {
    match &config.access {
        Access::Insecure => Keys::open_door(),
        Access::Keys { .. } => {
            let (store, own_runner) = (store.clone(), own_runner.clone());
            Keys::new(move |key| {
                let (store, ours) =
                    (store.clone(), workspace::team_of_derived_key(&own_runner, &key));
                Box::pin(async move {
                    match ours {
                        Some(team) => Ok(Some(Team(team))),
                        None => Ok(store.team_of(&key).await?.map(Team)),
                    }
                })
            })
        }
    }
}

/// Where runners and browsers reach this server. One that listens everywhere is
/// reached on loopback, at least from here.
fn base_url(config: &ServeConfig, address: SocketAddr) -> String {
    match &config.public_url {
        Some(url) => url.to_string(),
        None => format!("http://{}", reachable(address)),
    }
}

fn runner_address(
    config: &ServeConfig,
    address: SocketAddr,
    own_runner: Secret<[u8; 32]>,
) -> RunnerAddress {
    match (&config.other_runner, &config.access) {
        (Some(OtherRunner { url, key }), _) => RunnerAddress {
            url: url.to_string(),
            key: key.clone().map_or(RunnerKey::None, RunnerKey::Fixed),
        },
        (None, Access::Insecure) => {
            RunnerAddress { url: format!("http://{}", reachable(address)), key: RunnerKey::None }
        }
        (None, Access::Keys { .. }) => RunnerAddress {
            url: format!("http://{}", reachable(address)),
            key: RunnerKey::Derived(own_runner),
        },
    }
}

fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    address
}

/// Refuses a second server on the same data: each would take the other's
/// sandboxes for left-overs. Dropping the file frees the lock; it holds our pid.
pub(super) fn lock(data: &Path) -> anyhow::Result<File> {
    let path = data.join(LOCK_FILE);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    file.try_lock().with_context(|| {
        format!("another server uses {}; stop it, or name another --data", data.display())
    })?;
    file.set_len(0)?;
    write!(file, "{}", std::process::id())?;
    Ok(file)
}

/// Asks the server that uses `data` to stop, if there is one, and waits until
/// it has. Its sandboxes stay: whoever asked ends them next.
pub(super) async fn stop_server(data: &Path) -> anyhow::Result<()> {
    let path = data.join(LOCK_FILE);
    let Ok(file) = File::open(&path) else { return Ok(()) };
    if file.try_lock().is_ok() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&path)?;
    let pid = text.trim().parse().with_context(|| format!("{} has no pid", path.display()))?;
    kill(Pid::from_raw(pid), Signal::SIGTERM).context("cannot stop the server")?;
    for _ in 0..300 {
        if file.try_lock().is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("the server with pid {pid} did not stop within 30 s")
}
