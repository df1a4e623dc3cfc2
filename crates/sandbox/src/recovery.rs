//! Sandboxes of a former server: taken in again if they live, booked as ended
//! if they do not.

use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use isolate::{Ended, Found, Instance};
use store::{SandboxRow, StoreError};

use crate::{
    Envd, EnvdError,
    driver::{Driver, EndReason},
    network::from_column,
    registry::Shared,
};

/// How long the row of a sandbox that ended is kept.
const RETENTION: TimeDelta = TimeDelta::days(7);

impl Shared {
    /// Brings registry, store and host to agree on what lives. A store that
    /// does not answer is logged and not fatal: sandboxes are worth more than
    /// their rows.
    pub(crate) async fn recover(self: &Arc<Shared>) -> Result<(), isolate::Error> {
        let mut found = self.walls.find().await?;
        let rows = self.office.store.living_sandboxes().await.unwrap_or_else(|err| {
            tracing::error!("former sandboxes could not be read: {err}");
            Vec::new()
        });
        for row in rows {
            let at = found.iter().position(|one| one.id == row.id);
            self.settle(row, at.map(|at| found.swap_remove(at))).await;
        }
        for Found { id, state } in found {
            // Without a row nobody owns it: its making was interrupted.
            if let Ok(instance) = state {
                tracing::warn!(sandbox.id = %id, "sandbox {id} belongs to nobody and is removed");
                instance.kill().await?;
            }
        }
        let old = self.office.store.prune_sandboxes(Utc::now() - RETENTION).await;
        if let Err(err) = old {
            tracing::warn!("old sandboxes could not be forgotten: {err}");
        }
        Ok(())
    }

    /// Removes the generations of the `dev` template and of the agent that nobody
    /// uses any more. It can wait for the next start, so a failure is logged and
    /// not fatal.
    pub(crate) fn prune_layers(&self) {
        let layers = match self.walls.layers() {
            Ok(layers) => layers,
            Err(err) => {
                return tracing::warn!("layers that are in use could not be found out: {err}");
            }
        };
        if let Some(Err(err)) = self.templates.as_ref().map(|all| all.prune(&layers)) {
            tracing::warn!("old generations of a template are left: {err}");
        }
        if let Some(Err(err)) = self.agent.as_ref().map(|agent| agent.prune(&layers)) {
            tracing::warn!("old generations of the agent are left: {err}");
        }
    }

    async fn settle(self: &Arc<Shared>, row: SandboxRow, found: Option<Found>) {
        let id = row.id.clone();
        let reason = match found.map(|found| found.state) {
            Some(Ok(instance)) => match self.adopt(row, Arc::clone(&instance)).await {
                Ok(()) => return tracing::info!(sandbox.id = %id, "sandbox {id} is found again"),
                Err(err) => {
                    tracing::error!(sandbox.id = %id, "sandbox {id} does not answer: {err}");
                    if let Err(err) = instance.kill().await {
                        tracing::error!(sandbox.id = %id, "sandbox {id} was not removed: {err}");
                    }
                    EndReason::Lost
                }
            },
            Some(Err(ended)) => ended.into(),
            None => Ended::Lost.into(),
        };
        tracing::info!(sandbox.id = %id, reason = reason.name(), "sandbox {id} ended meanwhile");
        self.office.tally.sandbox_ended(reason);
        let stored: Result<(), StoreError> =
            self.office.store.end_sandbox(&id, reason.name(), Utc::now()).await;
        if let Err(err) = stored {
            tracing::error!(sandbox.id = %id, "the end of sandbox {id} was not stored: {err}");
        }
    }

    async fn adopt(
        self: &Arc<Shared>,
        row: SandboxRow,
        instance: Arc<dyn Instance>,
    ) -> Result<(), EnvdError> {
        let envd = Envd::new(Arc::clone(&instance));
        let control = envd.control().await?;
        let (deadline, network) = (row.deadline, from_column(&row.network));
        let (driver, sandbox) =
            Driver::new(row.into(), deadline, network, instance, envd, self.office.clone());
        // It lives whether or not there is room for it.
        let room = Arc::clone(&self.room).try_acquire_owned().ok();
        self.enlist(driver, &sandbox, control, room);
        Ok(())
    }
}
