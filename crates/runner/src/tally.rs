//! How many runs there were, and how they ended.

use std::sync::atomic::{AtomicU64, Ordering};

use http_kit::Exposition;
use wire::run::ErrorCode;

/// What a run without an error counts as.
const RESULT: &str = "result";

/// Counters since the server began.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    started: AtomicU64,
    active: AtomicU64,
    results: AtomicU64,
    errors: [AtomicU64; ErrorCode::ALL.len()],
}

impl Tally {
    /// A run began here.
    pub(crate) fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    /// A run of a former server goes on here.
    pub(crate) fn adopted(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    /// An active run is not ours any more.
    pub(crate) fn left(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    /// A run ended; a result has no code.
    pub(crate) fn finished(&self, code: Option<ErrorCode>) {
        let at = code.and_then(|code| ErrorCode::ALL.iter().position(|one| *one == code));
        let counter = at.map_or(&self.results, |at| &self.errors[at]);
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the runs' series to a scrape.
    pub(crate) fn expose(&self, text: &mut Exposition) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        text.counter("mayfly_runs_started_total", "Runs dispatched.", read(&self.started));
        let errors = ErrorCode::ALL.iter().zip(&self.errors);
        let errors = errors.map(|(code, counter)| (code.name(), read(counter)));
        text.counters(
            "mayfly_runs_finished_total",
            "Runs ended, by the code of their error.",
            "code",
            std::iter::once((RESULT, read(&self.results))).chain(errors),
        );
        text.gauge("mayfly_runs_active", "Runs going on now.", read(&self.active));
    }
}
