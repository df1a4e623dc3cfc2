//! What the whole server counts. Plain atomics, so that a scrape costs nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::Outcome;

use crate::EndReason;

/// Commands and sandboxes, since the server began.
#[derive(Debug, Default)]
pub struct Tally {
    started: AtomicU64,
    ok: AtomicU64,
    error: AtomicU64,
    killed: AtomicU64,
    active: AtomicU64,
    out_of_memory: AtomicU64,
    sandboxes_created: AtomicU64,
    sandboxes_ended: [AtomicU64; EndReason::ALL.len()],
}

impl Tally {
    /// Commands started.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Commands finished, by how.
    pub fn finished(&self) -> [(&'static str, u64); 3] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [("ok", read(&self.ok)), ("error", read(&self.error)), ("killed", read(&self.killed))]
    }

    /// Commands running now.
    pub fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// Commands that were killed because memory ran out.
    pub fn out_of_memory(&self) -> u64 {
        self.out_of_memory.load(Ordering::Relaxed)
    }

    /// Sandboxes made.
    pub fn sandboxes_created(&self) -> u64 {
        self.sandboxes_created.load(Ordering::Relaxed)
    }

    /// Sandboxes ended, by why.
    pub fn sandboxes_ended(&self) -> impl Iterator<Item = (&'static str, u64)> {
        EndReason::ALL
            .iter()
            .zip(&self.sandboxes_ended)
            .map(|(reason, count)| (reason.name(), count.load(Ordering::Relaxed)))
    }

    pub(crate) fn command_started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    /// Books the end of one started command. The caller does so once for each.
    pub(crate) fn command_finished(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Ok => &self.ok,
            Outcome::Error => &self.error,
            Outcome::Killed => &self.killed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn command_out_of_memory(&self) {
        self.out_of_memory.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sandbox_created(&self) {
        self.sandboxes_created.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sandbox_ended(&self, reason: EndReason) {
        if let Some(index) = EndReason::ALL.iter().position(|known| *known == reason) {
            self.sandboxes_ended[index].fetch_add(1, Ordering::Relaxed);
        }
    }
}
