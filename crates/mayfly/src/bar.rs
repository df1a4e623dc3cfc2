//! Progress of long work on many files, for whoever watches at a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

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

/// Says on stderr that something goes on, where nobody knows how much there is of it.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new(what: &str) -> Spinner {
        let spinner = ProgressBar::new_spinner().with_message(what.to_owned());
        // A pattern that is wrong would show the usual one.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {bytes} {elapsed}") {
            spinner.set_style(style);
        }
        spinner.enable_steady_tick(Duration::from_millis(100));
        Spinner(spinner)
    }

    /// Shows how far the work is.
    pub(crate) fn show(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}
