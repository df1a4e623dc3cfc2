//! Carries a plan out: one task per execution, one block at a time.
//!
//! ```text
//! running ──► succeeded | failed | cancelled
//! ```
//!
//! Blocks that do not depend on one another are not carried out side by side:
//! the stream says by its brackets whose lines these are, and an execution never
//! holds more than one sandbox. The first block that fails ends the execution.
//! A server that stops ends it too; one that died ends it at its next start.

use std::time::{Duration, Instant};

use serde_json::Value;
use store::{ExecutionEnd, ExecutionRow, ExecutionState, StoreError};
use wire::workspace::ExecutionId;

use super::{
    blocks::{Action, Broken, DATA, Failure, Scene},
    check::{Plan, Planned},
    journal::Journal,
    lines::{Line, Step},
    live::{Live, Stop, StoppedBy},
    values::Values,
};
use crate::{clock, problem::Problem, state::Workspace};

/// How long the end waits for a database that does not take it.
const PAUSE: Duration = Duration::from_secs(1);

/// How an execution ended.
#[derive(Debug)]
pub(super) enum End {
    Succeeded(Option<Value>),
    Failed(Failure),
    Cancelled(Failure),
}

/// Stores the execution and begins with it. When this returns, it is under way
/// and goes on whether or not anybody follows it.
pub(super) async fn begin(
    workspace: &Workspace,
    row: ExecutionRow,
    plan: Plan,
) -> Result<Live, StoreError> {
    // Listed before it is stored: what is stored and not listed is nobody's.
    let (listed, stop, progress) = workspace.executions.list(&row.id, &workspace.closing);
    workspace.store.insert_execution(&row).await?;
    let live = listed.live();
    let journal = Journal::new(&workspace.store, &row.id, progress);
    let owned = workspace.clone();
    workspace.tasks.spawn(async move {
        run(&owned, &row, &plan, journal, &stop).await;
        drop(listed);
    });
    Ok(live)
}

async fn run(
    workspace: &Workspace,
    row: &ExecutionRow,
    plan: &Plan,
    mut journal: Journal,
    stop: &Stop,
) {
    let carried_out = carry_out(workspace, row, plan, &mut journal, stop).await;
    let end = carried_out.unwrap_or_else(|err| {
        tracing::error!(execution.id = %row.id, "the stream of {} broke off: {err}", row.id);
        let message = format!("the stream cannot be written: {err}");
        End::Failed(Failure::new(Problem::from(err).code(), message))
    });
    let mut last_words = [journal.last_words(end.line(&row.id))];
    let booked = end.booked();
    while let Err(err) = workspace.store.finish_execution(&row.id, &booked, &last_words).await {
        tracing::error!(execution.id = %row.id, "the end of {} cannot be stored: {err}", row.id);
        // Whoever follows goes on waiting: the execution has no end yet. A
        // server that stops leaves it to the next one.
        if workspace.closing.is_cancelled() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
        // Their number is taken when a line is there that was given up.
        if journal.look_back().await.is_ok() {
            last_words = [journal.last_words(end.line(&row.id))];
        }
    }
    journal.close();
}

async fn carry_out(
    workspace: &Workspace,
    row: &ExecutionRow,
    plan: &Plan,
    journal: &mut Journal,
    stop: &Stop,
) -> Result<End, StoreError> {
    let began = Line::execution(&row.id, ExecutionState::Running, None, None);
    journal.say(began.to_json()).await?;
    let mut values = Values::default();
    let mut answer = None;
    for Planned { id, at, action } in &plan.blocks {
        if let Some(by) = stop.by() {
            return Ok(End::stopped(by));
        }
        journal.say(Line::block(&row.id, id, Step::Running, None).to_json()).await?;
        let since = Instant::now();
        let scene = Scene {
            workspace,
            execution: row,
            environment: &plan.environment.variables,
            values: &values,
            block: id,
            journal,
            stop,
        };
        let outputs = action.carry_out(scene).await;
        let taken = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (failure, end) = match outputs {
            Ok(outputs) => {
                let line = Line::block(&row.id, id, Step::Succeeded(&outputs), Some(taken));
                journal.say(line.to_json()).await?;
                if let Action::Respond(_) = action {
                    answer = outputs.get(DATA).cloned();
                }
                values.insert(id, outputs);
                continue;
            }
            Err(Broken::Failed(failure)) => {
                let of_all = format!("block `{id}` ({at}) failed: {}", failure.message);
                let of_all = Failure { code: failure.code.clone(), message: of_all };
                (failure, End::Failed(of_all))
            }
            Err(Broken::Stopped) => {
                let end = End::stopped(stop.by().unwrap_or(StoppedBy::Caller));
                (Failure::new("cancelled", "the execution was stopped"), end)
            }
        };
        let line = Line::block(&row.id, id, Step::Failed(&failure), Some(taken));
        journal.say(line.to_json()).await?;
        return Ok(end);
    }
    Ok(End::Succeeded(answer))
}

impl End {
    fn stopped(by: StoppedBy) -> End {
        match by {
            StoppedBy::Caller => {
                End::Cancelled(Failure::new("cancelled", "the execution was cancelled"))
            }
            StoppedBy::Server => End::server_restarted(),
        }
    }

    /// The server that carried it out is gone, or about to be.
    pub(super) fn server_restarted() -> End {
        let message = "the server stopped while the execution was under way";
        End::Failed(Failure::new("server_restarted", message))
    }

    fn state(&self) -> ExecutionState {
        match self {
            End::Succeeded(_) => ExecutionState::Succeeded,
            End::Failed(_) => ExecutionState::Failed,
            End::Cancelled(_) => ExecutionState::Cancelled,
        }
    }

    fn parts(&self) -> (Option<&Value>, Option<&Failure>) {
        match self {
            End::Succeeded(outputs) => (outputs.as_ref(), None),
            End::Failed(failure) | End::Cancelled(failure) => (None, Some(failure)),
        }
    }

    /// The last line of the stream.
    pub(super) fn line(&self, id: &ExecutionId) -> String {
        let (outputs, failure) = self.parts();
        Line::execution(id, self.state(), outputs, failure).to_json()
    }

    /// The end as it is stored.
    pub(super) fn booked(&self) -> ExecutionEnd {
        let (outputs, failure) = self.parts();
        ExecutionEnd {
            state: self.state(),
            outputs: outputs.cloned(),
            code: failure.map(|failure| failure.code.clone()),
            error: failure.map(|failure| failure.message.clone()),
            at: clock::now(),
        }
    }
}
