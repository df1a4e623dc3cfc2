//! One task per run: the only code that keeps a run's books and ends its sandbox.
//!
//! ```text
//! starting ── agent told everything ──► running ── terminal event ──► settled
//!     └──────────── cancelled, cap, death ─────────────┘
//! ```
//!
//! What the agent says comes by its standard output, what it asks of the host by
//! its link, and the log has both in the order in which the agent did them.
//! Whatever happens, the log gets exactly one terminal event; what it says of a
//! death is in `verdict`. A run that is left to the next server gets none here.

use std::{path::PathBuf, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use sandbox::Sandbox;
use store::RunRow;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::task::AbortOnDropHandle;
use wire::run::Event;

use crate::{
    attend::{Attendance, Said},
    book::Book,
    dispatch::Dispatch,
    link::{self, Note, Upstreams},
    opening::{self, Opened, OpeningError},
    verdict::{self, Verdict},
};

/// How long what an agent said before it called a tool is waited for: words and
/// calls come by different ways. An agent that says how much it said is waited for
/// until that was heard, or until it is clear that it lies.
const ON_ITS_WAY: Duration = Duration::from_millis(25);
const PROMISED: Duration = Duration::from_secs(1);

/// What a driver is to do.
pub(crate) enum Task {
    /// A new run.
    Fresh { program: PathBuf, dispatch: Box<Dispatch> },
    /// A run that a former server left.
    Adopted { upstreams: Box<Upstreams> },
}

/// What a driver works with.
pub(crate) struct Driver {
    pub(crate) book: Book,
    pub(crate) sandbox: Arc<Sandbox>,
}

impl Driver {
    /// Lives the run's life.
    pub(crate) async fn drive(mut self, task: Task) {
        match self.live(task).await {
            Verdict::Said => self.book.settle(None, Some(&self.sandbox)).await,
            Verdict::End(terminal) => self.book.settle(Some(terminal), Some(&self.sandbox)).await,
            Verdict::Leave => self.book.leave().await,
        }
    }

    async fn live(&mut self, task: Task) -> Verdict {
        let run = Arc::clone(&self.book.run);
        let opened = tokio::select! {
            biased;
            order = run.asked() => return verdict::of_order(order),
            opened = self.open(task) => opened,
        };
        match opened {
            Ok(opened) => {
                self.book.tell_files(opened.upstreams.file_hook());
                match self.book.interrupt_calls().await {
                    Some(verdict) => verdict,
                    None => self.attend(opened).await,
                }
            }
            Err(err) => verdict::of_opening(&err, &self.sandbox).await,
        }
    }

    async fn open(&self, task: Task) -> Result<Opened, OpeningError> {
        let Book { office, run, .. } = &self.book;
        match task {
            Task::Fresh { program, dispatch } => {
                opening::fresh(office, run, &self.sandbox, &program, *dispatch).await
            }
            Task::Adopted { upstreams } => opening::adopted(run, &self.sandbox, *upstreams).await,
        }
    }

    /// Listens until there is a verdict.
    async fn attend(&mut self, opened: Opened) -> Verdict {
        let Opened { link, upstreams, mut attendance, bootstrap } = opened;
        let office = Arc::clone(&self.book.office);
        let run = Arc::clone(&self.book.run);
        let sandbox = Arc::clone(&self.sandbox);
        let (note, mut notes) = mpsc::channel(64);
        let serving = link::serve(opening::connections(link), Arc::clone(&upstreams), note);
        // Ends with this function, and every connection through it too.
        let _serving = AbortOnDropHandle::new(office.tasks.spawn(serving));
        let mut deadline = deadline(run.row(), &upstreams);
        let cap = tokio::time::sleep(left(deadline));
        tokio::pin!(cap);
        let telling =
            opening::tell(Arc::clone(&office), Arc::clone(&run), Arc::clone(&sandbox), bootstrap);
        tokio::pin!(telling);
        let mut told = false;
        loop {
            let verdict = tokio::select! {
                biased;
                order = run.asked() => Some(verdict::of_order(order)),
                () = &mut cap => Some(verdict::runtime_exceeded(run.row(), deadline)),
                Some(note) = notes.recv() => match note {
                    Note::ConfigPassed => {
                        opening::keep(&office, &run, &upstreams).await;
                        deadline = self::deadline(run.row(), &upstreams);
                        cap.as_mut().reset(Instant::now() + left(deadline));
                        None
                    }
                    Note::Usage(usage) => self.book.count(usage).await,
                    Note::ToolStarted { id, name, args, at, line, booked } => {
                        let mut verdict = self.listen(&mut attendance, &upstreams, at.into(), line).await;
                        if verdict.is_none() {
                            verdict = self.book.note(Event::StepStarted { id, name, args }).await;
                        }
                        if verdict.is_none() {
                            booked.done();
                        }
                        verdict
                    }
                    Note::ToolEnded { id, outcome, duration_ms, booked } => {
                        let ended = Event::StepEnded { id, outcome, duration_ms };
                        let verdict = self.book.note(ended).await;
                        booked.done();
                        verdict
                    }
                    Note::Custom { name, value, booked } => {
                        let verdict = self.book.note(Event::Custom { name, value }).await;
                        booked.done();
                        verdict
                    }
                },
                outcome = &mut telling, if !told => {
                    told = true;
                    outcome.err().and_then(|err| verdict::of_telling(&err))
                }
                said = attendance.next() => self.hear(said, &upstreams).await,
                () = sandbox.gone().cancelled() => Some(verdict::of_sandbox(&sandbox).await),
            };
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
    }

    async fn hear(&mut self, said: Said, upstreams: &Upstreams) -> Option<Verdict> {
        match said {
            Said::Lines(lines) => {
                if let Some(refusal) = upstreams.overspent() {
                    self.book.note_overspent(refusal.to_string());
                }
                self.book.hear(lines).await
            }
            Said::Ended(exit) => Some(verdict::of_exit(&exit, &self.sandbox).await),
            Said::Silence => Some(verdict::of_silence(&self.sandbox).await),
        }
    }

    /// Hears what the agent said before it called a tool, as far as it says how
    /// much that was. It says nothing about the call before it is answered.
    async fn listen(
        &mut self,
        attendance: &mut Attendance,
        upstreams: &Upstreams,
        called: Instant,
        line: Option<u64>,
    ) -> Option<Verdict> {
        let until = called + if line.is_some() { PROMISED } else { ON_ITS_WAY };
        while line.is_none_or(|line| self.book.heard() < line) {
            let said = tokio::select! {
                said = attendance.next() => said,
                () = tokio::time::sleep_until(until) => return None,
            };
            if let Some(verdict) = self.hear(said, upstreams).await {
                return Some(verdict);
            }
        }
        None
    }
}

/// When the run's time is over: as dispatched, or earlier if its config says so.
fn deadline(row: &RunRow, upstreams: &Upstreams) -> DateTime<Utc> {
    let runtime = upstreams.max_runtime().and_then(|runtime| TimeDelta::from_std(runtime).ok());
    let by_config = runtime.and_then(|runtime| row.started_at.checked_add_signed(runtime));
    by_config.map_or(row.deadline, |by_config| by_config.min(row.deadline))
}

fn left(deadline: DateTime<Utc>) -> Duration {
    (deadline - Utc::now()).to_std().unwrap_or_default()
}
