//! Who asks, and for which run.

use axum::{
    extract::{FromRef, FromRequestParts, Path},
    http::request::Parts,
};
use http_kit::{Caller, Fault, Keys, Team};
use store::RunRow;
use tokio::sync::watch;
use wire::{Code, run::RunId};

use crate::{
    fault,
    log::{LOG_FILE, Life, Progress},
    office::Runner,
};

impl FromRef<Runner> for Keys {
    fn from_ref(runner: &Runner) -> Keys {
        runner.keys.clone()
    }
}

/// The caller's own run, named in the path, living or ended.
pub(crate) struct Owned {
    pub(crate) row: RunRow,
    pub(crate) progress: watch::Receiver<Progress>,
}

impl FromRequestParts<Runner> for Owned {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, runner: &Runner) -> Result<Owned, Fault> {
        let Caller(team) = Caller::from_request_parts(parts, runner).await?;
        let path = Path::<Vec<(String, String)>>::from_request_parts(parts, runner).await;
        let names = path.map_err(|_| Fault::new(Code::InvalidArgument, "the path names no run"))?;
        let id = names.0.iter().find(|(name, _)| name == "id").map(|(_, id)| id.as_str());
        runner.owned(id.unwrap_or_default(), &team).await
    }
}

impl Runner {
    /// A run of `team`. One of another team is as unknown as none.
    pub(crate) async fn owned(&self, id: &str, team: &Team) -> Result<Owned, Fault> {
        let unknown = || Fault::new(Code::NotFound, format!("run `{id}` was not found"));
        let id = RunId::parse(id).map_err(|_| unknown())?;
        // The handle first: a run that ends in between is in the store by then.
        let living = self.office.get(&id);
        let row = self.office.store.run(&id).await.map_err(fault::of_store)?;
        let row = row.filter(|row| row.team == team.0).ok_or_else(unknown)?;
        let progress = match living {
            Some(run) => run.progress(),
            None => self.archived(&row),
        };
        Ok(Owned { row, progress })
    }

    /// The progress of a log that nobody writes any more.
    fn archived(&self, row: &RunRow) -> watch::Receiver<Progress> {
        let path = self.office.shelf.of(&row.id).join(LOG_FILE);
        let length = path.metadata().map_or(0, |file| file.len());
        watch::channel(Progress { length, seq: row.last_seq, life: Life::Ended }).1
    }
}
