//! One task per run: the only code that keeps a run's books and ends its sandbox.
//!
//! ```text
//! starting ── agent told everything ──► running ── terminal event ──► settled
//!     └──────────── cancelled, cap, death ─────────────┘
//! ```
//!
//! Whatever happens, the log gets exactly one terminal event; what it says of a
//! death is in `verdict`. A run that is left to the next server gets none here.

use std::{path::PathBuf, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use sandbox::Sandbox;
use store::RunRow;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    attend::Said,
    book::Book,
    dispatch::Dispatch,
    link::{self, Note, Upstreams},
    opening::{self, Opened, OpeningError},
    verdict::{self, Verdict},
};

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
            Ok(opened) => self.attend(opened).await,
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
                },
                outcome = &mut telling, if !told => {
                    told = true;
                    outcome.err().and_then(|err| verdict::of_telling(&err))
                }
                said = attendance.next() => match said {
                    Said::Lines(lines) => self.book.hear(lines).await,
                    Said::Ended(exit) => Some(verdict::of_exit(&exit, &sandbox).await),
                    Said::Silence => Some(verdict::of_silence(&sandbox).await),
                },
                () = sandbox.gone().cancelled() => Some(verdict::of_sandbox(&sandbox).await),
            };
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
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
