//! The parts, put together: store behind sandboxes behind the front door.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use gateway::Gateway;
use http_kit::{Keys, Team};
use sandbox::{AccessTokens, Closing, Sandboxes};
use store::Store;
use tokio_util::sync::CancellationToken;

use crate::config::{Access, ServeConfig};

/// What runs behind the listener.
pub(super) struct House {
    sandboxes: Sandboxes,
    gateway: Gateway,
}

impl House {
    /// Puts the parts together and clears away what a former life left.
    pub(super) async fn build(config: &ServeConfig, store: &Store) -> anyhow::Result<House> {
        let settings = sandbox::Settings {
            directory: config.data.join("sandboxes"),
            templates: config.data.join("templates"),
            tier: config.tier,
            envd: config.envd.clone(),
            keeper: config.keeper.clone(),
            jexec: config.jexec.clone(),
            max_sandboxes: usize::try_from(config.max_sandboxes)?,
        };
        let sandboxes = Sandboxes::open(settings, store.clone()).await?;
        let gateway = Gateway::new(gateway::Settings {
            sandboxes: sandboxes.clone(),
            keys: keys(config, store),
            tokens: AccessTokens::from_file(&config.data.join("server.key"))?,
            domain: config.domain.clone(),
        });
        Ok(House { sandboxes, gateway })
    }

    pub(super) fn router(&self) -> Router {
        gateway::router(self.gateway.clone())
    }

    /// Ends every sandbox after `stop`.
    pub(super) fn end_on(
        &self,
        stop: CancellationToken,
        grace: Duration,
    ) -> impl Future<Output = ()> + use<> {
        let sandboxes = self.sandboxes.clone();
        async move {
            stop.cancelled().await;
            sandboxes.close(Closing::Leave, grace).await;
        }
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
/// sandboxes for left-overs. Dropping the file frees the lock.
pub(super) fn lock(data: &Path) -> anyhow::Result<File> {
    let path = data.join("serve.lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    file.try_lock().with_context(|| {
        format!("another server uses {}; stop it, or name another --data", data.display())
    })?;
    Ok(file)
}
