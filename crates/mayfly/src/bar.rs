//! A progress bar for long work on many files.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// A progress bar on stderr, where there is a terminal to show it.
pub(crate) struct Bar {
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Bar {
    const WIDTH: u64 = 30;

    pub(crate) fn new() -> Bar {
        Bar { shown: None, is_terminal: io::stderr().is_terminal() }
    }

    /// Shows how far the work is, not more often than an eye can follow.
    pub(crate) fn show(&mut self, done: u64, total: u64, files: u64) {
        let soon = self.shown.is_some_and(|shown| shown.elapsed() < Duration::from_millis(100));
        if !self.is_terminal || soon {
            return;
        }
        self.shown = Some(Instant::now());
        let total = total.max(1);
        let filled = (done.min(total) * Self::WIDTH / total) as usize;
        let bar = format!("{}{}", "=".repeat(filled), " ".repeat(Self::WIDTH as usize - filled));
        let (done, total) = (megabytes(done), megabytes(total));
        drop(write!(io::stderr(), "\r[{bar}] {done} of {total}, {files} files"));
    }

    pub(crate) fn finish(&self) {
        if self.shown.is_some() {
            drop(writeln!(io::stderr()));
        }
    }
}

pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}
