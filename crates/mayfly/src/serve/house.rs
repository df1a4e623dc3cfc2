//! The parts, put together: store behind sandboxes behind the front door.

use std::fs::{File, OpenOptions};
use std::io::Write;
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
use store::Store;

use super::{network, signals::Stop};
use crate::config::{Access, Network, ServeConfig};

/// Held by the server that uses a data directory.
const LOCK_FILE: &str = "serve.lock";

/// What runs behind the listener.
pub(super) struct House {
    sandboxes: Sandboxes,
    gateway: Gateway,
    runner: Runner,
    network: Network,
}

impl House {
    /// Puts the parts together and clears away what a former life left.
    pub(super) async fn build(config: &ServeConfig, store: &Store) -> anyhow::Result<House> {
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
        let keys = keys(config, store);
        let runner = Runner::open(runner::Settings {
            directory: data.join("runs"),
            sandboxes: sandboxes.clone(),
            store: store.clone(),
            keys: keys.clone(),
            max_runtime: config.max_runtime,
            keep: config.keep_runs,
            addresses: config.callbacks.clone(),
            seal_key: tokens.derive(SEAL_LABEL),
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
        Ok(House { sandboxes, gateway, runner, network })
    }

    /// What sandboxes reach, as it turned out.
    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    pub(super) fn router(&self) -> Router {
        gateway::router(self.gateway.clone(), runner::router(self.runner.clone()))
    }

    /// Ends or leaves the runs and the sandboxes after `stop`.
    pub(super) fn end_on(&self, stop: Stop, grace: Duration) -> impl Future<Output = ()> + use<> {
        let (runner, sandboxes) = (self.runner.clone(), self.sandboxes.clone());
        async move {
            let closing = stop.wished().await;
            runner.close(closing, grace).await;
            sandboxes.close(closing, grace).await;
        }
    }

    /// Ends every sandbox and says how many there were.
    pub(super) async fn end_all(&self, grace: Duration) -> usize {
        let count = self.sandboxes.count();
        self.runner.close(Closing::Destroy, grace).await;
        self.sandboxes.close(Closing::Destroy, grace).await;
        count
    }
}

fn keys(config: &ServeConfig, store: &Store) -> Keys {
    match &config.access {
        Access::Insecure => Keys::open_door(),
        Access::Keys { .. } => {
            let store = store.clone();
            Keys::new(move |key| {
                let store = store.clone();
                Box::pin(async move { Ok(store.team_of(&key).await?.map(Team)) })
            })
        }
    }
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
