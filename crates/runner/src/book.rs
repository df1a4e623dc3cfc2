//! A run's books: its log while it goes on, and its end in log, archive and
//! store. Only a driver, or the recovery after a crash, holds them.
//!
//! At the end the terminal event is out first, then the sandbox goes, then the
//! log is put away. Who follows the log to its end finds nothing left.

use std::{sync::Arc, time::Duration};

use chrono::Utc;
use sandbox::Sandbox;
use store::RunEnd;
use tokio::time::timeout;
use wire::run::{ErrorCode, Event, Ledger, Outcome, Refusal, RunEvent, StepId, Terminal};

use crate::{
    archive, clock,
    hearing::Hearing,
    hooks::Hooks,
    lines::Line,
    link::Usage,
    log::{Former, Life, LogWriter},
    office::Office,
    opening,
    run::Run,
    verdict::{self, Verdict},
};

/// How long the end of a sandbox may take before the run is settled without it.
const TEARDOWN: Duration = Duration::from_secs(10);

/// The books of one run.
pub(crate) struct Book {
    pub(crate) office: Arc<Office>,
    pub(crate) run: Arc<Run>,
    log: LogWriter,
    ledger: Ledger,
    hearing: Hearing,
    /// What was taken in and is not written yet.
    entries: Vec<RunEvent>,
    hooks: Hooks,
    /// Calls of tools that a former server left open.
    open_calls: Vec<(StepId, u64)>,
    input_tokens: u64,
    output_tokens: u64,
    code: Option<ErrorCode>,
    /// The log could not be written.
    broken: bool,
}

impl Book {
    /// Goes on with a log.
    pub(crate) fn new(office: Arc<Office>, run: Arc<Run>, log: LogWriter, former: Former) -> Book {
        Book {
            office,
            run,
            log,
            ledger: former.ledger,
            hearing: Hearing::after(former.agent_line),
            entries: Vec::new(),
            hooks: Hooks::default(),
            open_calls: former.open_calls,
            input_tokens: former.input_tokens,
            output_tokens: former.output_tokens,
            code: former.code,
            broken: false,
        }
    }

    /// Takes in what the agent wrote. What arrived together is written together.
    pub(crate) async fn hear(&mut self, lines: Vec<Line>) -> Option<Verdict> {
        self.hearing.hear(lines, &mut self.ledger, clock::now(), &mut self.entries);
        self.write().await
    }

    /// Takes in that the model is not asked any more, and why.
    pub(crate) fn note_overspent(&mut self, why: String) {
        self.hearing.note_overspent(why);
    }

    /// How many of its lines the agent was heard with.
    pub(crate) fn heard(&self) -> u64 {
        self.hearing.line()
    }

    /// Takes in what a call to the model used.
    pub(crate) async fn count(&mut self, usage: Usage) -> Option<Verdict> {
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } =
            usage;
        self.input_tokens = self.input_tokens.saturating_add(input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
        let event =
            Event::Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens };
        // Refused only when the run is over.
        let _ = self.ledger.append(event, clock::now(), &mut self.entries);
        self.write().await
    }

    /// Takes in an event of the host's own: what a tool of the caller's does.
    pub(crate) async fn note(&mut self, event: Event) -> Option<Verdict> {
        match self.ledger.append(event, clock::now(), &mut self.entries) {
            // A call that is not in the log must not be made either.
            Err(refusal @ Refusal::TooManySteps { .. }) => Some(verdict::too_many_steps(&refusal)),
            // Refused only when the run is over.
            Ok(()) | Err(_) => self.write().await,
        }
    }

    /// Ends the calls of tools that were made through a former server: they
    /// ended with its connections.
    pub(crate) async fn interrupt_calls(&mut self) -> Option<Verdict> {
        let now = clock::now();
        for (id, since) in std::mem::take(&mut self.open_calls) {
            let outcome = Outcome::Failed { error: "interrupted".to_owned(), result: None };
            let duration_ms = now.saturating_sub(since);
            let ended = Event::StepEnded { id, outcome, duration_ms };
            // Each of them runs, as its log says.
            let _ = self.ledger.append(ended, now, &mut self.entries);
        }
        self.write().await
    }

    /// Tells files that change to whoever wants to know beside the log.
    pub(crate) fn tell_files(&mut self, run_hook: Option<&str>) {
        self.hooks = Hooks::open(&self.office, &self.run, run_hook);
    }

    /// Ends the run; with what is in the log already if there is no `terminal`.
    pub(crate) async fn settle(mut self, terminal: Option<Terminal>, sandbox: Option<&Sandbox>) {
        let run = Arc::clone(&self.run);
        let id = &run.row().id;
        if self.broken {
            self.mend().await;
        }
        if let Some(terminal) = terminal
            && !self.broken
        {
            // Refused only when the run is over.
            let _ = self.ledger.finish(terminal, clock::now(), &mut self.entries);
            let _ = self.write().await;
        }
        if let Some(sandbox) = sandbox
            && timeout(TEARDOWN, sandbox.kill()).await.is_err()
        {
            tracing::error!(run.id = %id, "the sandbox of run {id} does not end");
        }
        opening::discard(&run).await;
        self.put_away().await;
        let code = self.code.or_else(|| self.broken.then_some(ErrorCode::Internal));
        let end = RunEnd {
            at: Utc::now(),
            code,
            last_seq: self.log.progress().borrow().seq,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
        };
        if let Err(err) = self.office.store.end_run(id, &end).await {
            tracing::error!(run.id = %id, "the end of run {id} was not stored: {err}");
        }
        let name = code.map_or("result", ErrorCode::name);
        tracing::info!(run.id = %id, run.code = name, "run {id} ended: {name}");
        self.office.tally.finished(code);
        self.office.tally.left();
        self.office.forget(id);
        self.log.close(if self.broken { Life::Broken } else { Life::Ended });
    }

    /// Leaves the run to the next server, which goes on where the log ends.
    pub(crate) async fn leave(mut self) {
        let id = self.run.row().id.clone();
        if let Err(err) = self.log.sync().await {
            tracing::warn!(run.id = %id, "the log of run {id} was not flushed: {err}");
        }
        tracing::info!(run.id = %id, "run {id} goes on without this server");
        self.office.tally.left();
        self.office.forget(&id);
        self.log.close(Life::Left);
    }

    /// Writes what was taken in, and says whether the run can go on.
    async fn write(&mut self) -> Option<Verdict> {
        let entries = std::mem::take(&mut self.entries);
        if let Err(err) = self.log.append(&entries).await {
            let id = &self.run.row().id;
            tracing::error!(run.id = %id, "the log of run {id} cannot be written: {err}");
            self.broken = true;
            return Some(verdict::log_broken());
        }
        self.hooks.tell(&self.run, &entries);
        if let Some(Event::Error { code, .. }) = entries.last().map(|entry| &entry.event) {
            self.code = Some(*code);
        }
        if self.ledger.is_finished() {
            return Some(Verdict::Said);
        }
        self.log.is_full().then(verdict::log_full)
    }

    /// A log that could not be written may have room for its end all the same.
    async fn mend(&mut self) {
        match self.log.rewind().await {
            Ok(former) => {
                self.ledger = former.ledger;
                self.code = former.code;
                self.entries.clear();
                self.broken = false;
            }
            Err(err) => {
                let id = &self.run.row().id;
                tracing::error!(run.id = %id, "the log of run {id} has no end: {err}");
            }
        }
    }

    async fn put_away(&mut self) {
        let id = self.run.row().id.clone();
        if let Err(err) = self.log.sync().await {
            tracing::error!(run.id = %id, "the log of run {id} was not flushed: {err}");
        }
        let (directory, run) = (self.run.directory().clone(), id.clone());
        let written = tokio::task::spawn_blocking(move || archive::write(&directory, &run)).await;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(err)) => tracing::error!(run.id = %id, "run {id} was not archived: {err}"),
            Err(err) => tracing::error!(run.id = %id, "archiving run {id} broke: {err}"),
        }
    }
}
