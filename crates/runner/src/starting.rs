//! Starting a run: a fresh sandbox, a row, the first lines of the log, a driver.
//! Whatever fails here is told by the status of the answer, and leaves nothing.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use sandbox::{BadTimeout, CreateError, Lifetime, NewSandbox, Sandbox, TemplateError};
use store::{RunRow, RunState, StoreError};
use tokio::sync::oneshot;
use wire::{
    agent::Harness,
    run::{Event, Ledger, Level, RunId},
};

use crate::{
    book::Book,
    clock,
    dispatch::{Dispatch, Origin, TEMPLATE},
    driver::{Driver, Task},
    link::UrlRefused,
    log::{Former, LogError, LogWriter},
    office::Office,
    run::{CallersLine, Run},
};

/// A sandbox outlives its run's cap by this, for starting and ending.
const MARGIN_SECONDS: u64 = 60;
/// How much of a prompt is kept to recognise a run by.
const PROMPT_HEAD: usize = 200;

/// The label of a run's sandbox that names the run.
pub(crate) const RUN_ID: &str = "run_id";

/// Why a run was not started. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DispatchError {
    #[error("the server is shutting down")]
    Closing,
    #[error("this server has no agent: start it with --agent")]
    NoAgent,
    #[error("`{field}` is refused: {reason}")]
    Address { field: &'static str, reason: UrlRefused },
    #[error("there is no template `{0}`; make one with `mayfly template add-harness {0}`")]
    NoHarness(Harness),
    #[error(transparent)]
    Sandbox(#[from] CreateError),
    #[error("the run would take too long")]
    Runtime(#[from] BadTimeout),
    #[error("the log of the run cannot be made")]
    Directory(#[from] io::Error),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the run could not be stored")]
    Store(#[from] StoreError),
    #[error("starting the run was interrupted")]
    Interrupted,
}

impl Office {
    /// Starts a run. A caller that goes away meanwhile has hung up on it.
    pub(crate) async fn dispatch(
        self: &Arc<Office>,
        team: String,
        dispatch: Dispatch,
    ) -> Result<CallersLine, DispatchError> {
        if self.is_closed() {
            return Err(DispatchError::Closing);
        }
        let program = self.sandboxes.agent_path().ok_or(DispatchError::NoAgent)?;
        for (field, url) in dispatch.addresses() {
            let checked = self.outbound.check(url);
            checked.map_err(|reason| DispatchError::Address { field, reason })?;
        }
        let (reply, answer) = oneshot::channel();
        let office = Arc::clone(self);
        self.tasks.spawn(async move {
            match office.begin(team, &dispatch).await {
                Ok(driver) => {
                    // Whoever does not take the line has hung up: it is dropped.
                    let _ = reply.send(Ok(CallersLine::new(Arc::clone(&driver.book.run))));
                    driver.drive(Task::Fresh { program, dispatch: Box::new(dispatch) }).await;
                }
                Err(err) => {
                    let _ = reply.send(Err(err));
                }
            }
        });
        answer.await.unwrap_or(Err(DispatchError::Interrupted))
    }

    async fn begin(
        self: &Arc<Office>,
        team: String,
        dispatch: &Dispatch,
    ) -> Result<Driver, DispatchError> {
        let id = RunId::from_random(rand::random());
        let runtime = match dispatch.limits.max_runtime_sec {
            Some(seconds) => self.max_runtime.min(Duration::from_secs(seconds)),
            None => self.max_runtime,
        };
        let seconds = runtime.as_secs().saturating_add(MARGIN_SECONDS);
        let new = NewSandbox {
            team: team.clone(),
            template: self.template(dispatch).to_owned(),
            lifetime: Lifetime::for_new(i64::try_from(seconds).unwrap_or(i64::MAX))?,
            metadata: BTreeMap::from([(RUN_ID.to_owned(), id.to_string())]),
            envs: BTreeMap::new(),
            network: None,
        };
        let made = self.sandboxes.create(new).await;
        let sandbox = made.map_err(|err| without_template(err, dispatch))?;
        // As the store keeps it.
        let started_at = Utc::now().trunc_subsecs(3);
        let row = RunRow {
            id,
            team,
            callers_name: dispatch.callers_name().map(|name| name.hash()),
            sandbox_id: sandbox.id().clone(),
            state: RunState::Starting,
            on_disconnect: dispatch.on_disconnect,
            prompt_head: dispatch.prompt.chars().take(PROMPT_HEAD).collect(),
            started_at,
            deadline: deadline(started_at, runtime),
            ended_at: None,
            code: None,
            last_seq: 0,
            input_tokens: 0,
            output_tokens: 0,
        };
        let id = row.id.clone();
        match self.book(row, dispatch, &sandbox).await {
            Ok(driver) => Ok(driver),
            Err(err) => {
                self.forget(&id);
                if let Err(err) = self.shelf.remove(&id) {
                    tracing::warn!(run.id = %id, "the log of {id} is left: {err}");
                }
                sandbox.kill().await;
                Err(err)
            }
        }
    }

    /// Writes the run down: the first lines of its log, and its row.
    async fn book(
        self: &Arc<Office>,
        row: RunRow,
        dispatch: &Dispatch,
        sandbox: &Arc<Sandbox>,
    ) -> Result<Driver, DispatchError> {
        let directory = self.shelf.of(&row.id);
        let mut log = LogWriter::create(&directory)?;
        let (id, sandbox_id) = (&row.id, &row.sandbox_id);
        let (provider, model) = model_of(&dispatch.origin);
        let started = Event::Started {
            run_id: id.clone(),
            sandbox_id: Some(sandbox_id.clone()),
            harness: dispatch.harness.unwrap_or_default().name().to_owned(),
            provider,
            model,
            thread_id: dispatch.thread_id.clone(),
            client_run_id: dispatch.client_run_id.clone(),
        };
        let message = format!("Run {id} starts in sandbox {sandbox_id}");
        let mut ledger = Ledger::new();
        let mut entries = Vec::new();
        for event in [started, Event::Log { level: Level::Info, message }] {
            // The first two of a log break no rule.
            let _ = ledger.append(event, clock::now(), &mut entries);
        }
        log.append(&entries).await?;
        let run = Run::new(row, directory, log.progress());
        // The handle before the row: a run that is in the store and has none is over.
        self.enlist(&run);
        self.store.insert_run(run.row()).await?;
        self.tally.started();
        let id = &run.row().id;
        tracing::info!(run.id = %id, sandbox.id = %sandbox.id(), "run {id} started");
        let former = Former { ledger, ..Former::default() };
        let book = Book::new(Arc::clone(self), run, log, former);
        Ok(Driver { book, sandbox: Arc::clone(sandbox) })
    }

    /// What the sandbox is made from. Where there are no templates a harness's
    /// program is the host's, if the host has it.
    fn template<'a>(&self, dispatch: &'a Dispatch) -> &'a str {
        let is_own = dispatch.harness.is_some_and(|harness| harness.name() == dispatch.template);
        if is_own && !self.sandboxes.have_templates() { TEMPLATE } else { &dispatch.template }
    }
}

/// A harness's own template is made by a command, which few know by heart.
fn without_template(err: CreateError, dispatch: &Dispatch) -> DispatchError {
    let is_missing = matches!(
        &err,
        CreateError::NoTemplate(_) | CreateError::Template(TemplateError::Unknown(_))
    );
    match dispatch.harness {
        Some(harness) if is_missing && dispatch.template == harness.name() => {
            DispatchError::NoHarness(harness)
        }
        Some(_) | None => DispatchError::Sandbox(err),
    }
}

/// An inline config says whose model it wants; a workspace says it later.
fn model_of(origin: &Origin) -> (Option<String>, Option<String>) {
    match origin {
        Origin::Callbacks { .. } => (None, None),
        Origin::Inline { config, .. } => {
            let model = &config.expose()["model"];
            let text = |name: &str| model[name].as_str().map(str::to_owned);
            (text("provider"), text("name"))
        }
    }
}

fn deadline(started_at: DateTime<Utc>, runtime: Duration) -> DateTime<Utc> {
    let runtime = TimeDelta::from_std(runtime).unwrap_or(TimeDelta::MAX);
    started_at.checked_add_signed(runtime).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
