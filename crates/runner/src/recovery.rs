//! Runs of a former server: taken up again if they are to continue and can,
//! ended if not. No log is left without its terminal event.

use std::{io, sync::Arc};

use chrono::Utc;
use sandbox::Sandbox;
use store::{OnDisconnect, RunEnd, RunRow, RunState, StoreError};
use wire::run::{ErrorCode, RunId, Terminal};

use crate::{
    book::Book,
    driver::{Driver, Task},
    log::{Former, LogError, LogWriter},
    office::Office,
    opening,
    run::Run,
    starting::RUN_ID,
};

impl Office {
    /// Brings store, logs and sandboxes to agree on which runs go on. A store
    /// that does not answer is logged and not fatal.
    pub(crate) async fn recover(self: &Arc<Office>) {
        let rows = self.store.living_runs().await.unwrap_or_else(|err| {
            tracing::error!("former runs could not be read: {err}");
            Vec::new()
        });
        for row in rows {
            self.take_up(row).await;
        }
        if let Err(err) = self.end_unbooked().await {
            tracing::error!("sandboxes of former runs could not be read: {err}");
        }
        self.sweep().await;
    }

    /// Ends sandboxes that were made for a run which was never booked: the
    /// server was killed in between, so nobody was told of it.
    async fn end_unbooked(&self) -> Result<(), StoreError> {
        for row in self.store.living_sandboxes().await? {
            let run = row.metadata.get(RUN_ID).and_then(|id| RunId::parse(id).ok());
            let (Some(run), Some(sandbox)) = (run, self.sandboxes.get(&row.id)) else { continue };
            if self.store.run(&run).await?.is_none() {
                tracing::info!(sandbox.id = %row.id, "sandbox {} has no run, and ends", row.id);
                sandbox.kill().await;
            }
        }
        Ok(())
    }

    async fn take_up(self: &Arc<Office>, row: RunRow) {
        let id = row.id.clone();
        let directory = self.shelf.of(&id);
        let sandbox = self.sandboxes.get(&row.sandbox_id);
        let place = directory.clone();
        let resumed = tokio::task::spawn_blocking(move || LogWriter::resume(&place)).await;
        let resumed = resumed.unwrap_or_else(|panic| Err(LogError::Write(io::Error::other(panic))));
        let (log, former) = match resumed {
            Ok(resumed) => resumed,
            Err(err) => {
                tracing::error!(run.id = %id, "the log of run {id} cannot be read: {err}");
                return self.write_off(&id, sandbox).await;
            }
        };
        let run = Run::new(row, directory, log.progress());
        self.enlist(&run);
        self.tally.adopted();
        let task = self.task(&run, &former, sandbox.is_some());
        let ended = former.ledger.is_finished();
        let book = Book::new(Arc::clone(self), Arc::clone(&run), log, former);
        let terminal = if ended { None } else { Some(self.lost(run.row()).await) };
        self.tasks.spawn(async move {
            match (task, sandbox) {
                (Some(task), Some(sandbox)) => {
                    let id = &run.row().id;
                    tracing::info!(run.id = %id, "run {id} is found again");
                    Driver { book, sandbox }.drive(task).await;
                }
                (_, sandbox) => book.settle(terminal, sandbox.as_deref()).await,
            }
        });
    }

    /// How the run goes on, if it can.
    fn task(&self, run: &Run, former: &Former, alive: bool) -> Option<Task> {
        let row = run.row();
        let continues = match (row.on_disconnect, row.state) {
            (OnDisconnect::Continue, RunState::Running) => alive && !former.ledger.is_finished(),
            (OnDisconnect::Cancel | OnDisconnect::Continue, _) => false,
        };
        if !continues {
            return None;
        }
        let (key, outbound) = (&self.seal_key, self.outbound.clone());
        match opening::kept(run.directory(), &row.id, key, outbound, former.spent) {
            Ok(upstreams) => {
                let upstreams = upstreams
                    .after_calls(former.tool_calls)
                    .keeping_sessions_in(self.sessions_of(&row.team));
                Some(Task::Adopted { upstreams: Box::new(upstreams) })
            }
            Err(err) => {
                tracing::error!(run.id = %row.id, "run {} cannot go on: {err}", row.id);
                None
            }
        }
    }

    /// What is said of a run that does not go on: why its sandbox ended, if it did.
    async fn lost(&self, row: &RunRow) -> Terminal {
        let sandbox = self.store.sandbox(&row.sandbox_id).await.ok().flatten();
        let reason = sandbox.and_then(|sandbox| sandbox.end_reason);
        let (code, message) = match reason.as_deref() {
            Some("timeout") => (ErrorCode::RuntimeExceeded, "the sandbox's time was over"),
            Some("out_of_memory") => (ErrorCode::OutOfMemory, "the sandbox ran out of memory"),
            Some(_) => (ErrorCode::SandboxLost, "the sandbox ended while no server watched it"),
            None => (ErrorCode::SandboxLost, "the server was stopped while the run was going on"),
        };
        Terminal::Error { code, message: message.to_owned() }
    }

    /// Ends a run of which nothing is readable.
    async fn write_off(&self, id: &RunId, sandbox: Option<Arc<Sandbox>>) {
        if let Some(sandbox) = sandbox {
            sandbox.kill().await;
        }
        let end = RunEnd {
            at: Utc::now(),
            code: Some(ErrorCode::SandboxLost),
            last_seq: 0,
            input_tokens: 0,
            output_tokens: 0,
        };
        if let Err(err) = self.store.end_run(id, &end).await {
            tracing::error!(run.id = %id, "the end of run {id} was not stored: {err}");
        }
    }

    /// Removes directories that no row knows: their making, or their removal,
    /// was interrupted.
    async fn sweep(&self) {
        for id in self.shelf.ids() {
            if let Ok(None) = self.store.run(&id).await
                && let Err(err) = self.shelf.remove(&id)
            {
                tracing::warn!(run.id = %id, "the log of {id} is left: {err}");
            }
        }
    }
}
