//! What the agent says: run events on its standard output, one JSON object a
//! line, numbered from 1 without gaps.
//!
//! A line is written whole and at once, under a lock: tools of one round run
//! beside each other, and a half line would be lost for good. Writing blocks
//! when nobody reads. That is meant: the host holds the output of a run until
//! somebody takes it up again, and no event is worth dropping.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use wire::run::{AgentLine, Event, Level, Outcome, StepId, Terminal};

/// Writes the lines of one run. Shared by reference.
pub(crate) struct Emitter {
    lines: Mutex<Lines>,
}

struct Lines {
    out: Box<dyn Write + Send>,
    /// Number of the last line.
    written: u64,
    /// Number of the last step.
    steps: u64,
    ended: bool,
}

/// A step that runs. It ends by one of its two ends; the runner closes one
/// that is dropped.
#[must_use = "a step has to end"]
pub(crate) struct Step<'a> {
    out: &'a Emitter,
    id: StepId,
    began: Instant,
}

impl Emitter {
    /// An emitter onto this process's standard output.
    pub(crate) fn stdout() -> Emitter {
        Emitter::to(io::stdout())
    }

    /// An emitter onto anything.
    pub(crate) fn to(out: impl Write + Send + 'static) -> Emitter {
        let lines = Lines { out: Box::new(out), written: 0, steps: 0, ended: false };
        Emitter { lines: Mutex::new(lines) }
    }

    /// Writes one event. After a terminal one nothing is written any more.
    pub(crate) fn emit(&self, event: Event) {
        // A panic while the lock was held leaves nothing half done but a line.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).write(event);
    }

    /// Writes a log line.
    pub(crate) fn log(&self, level: Level, message: impl Into<String>) {
        self.emit(Event::Log { level, message: message.into() });
    }

    /// Writes what only one harness knows.
    pub(crate) fn custom(&self, name: impl Into<String>, value: Value) {
        self.emit(Event::Custom { name: name.into(), value });
    }

    /// Begins a step.
    pub(crate) fn step(&self, name: impl Into<String>, args: Value) -> Step<'_> {
        let began = Instant::now();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.steps += 1;
        let id = StepId::from_number(lines.steps);
        lines.write(Event::StepStarted { id: id.clone(), name: name.into(), args });
        Step { out: self, id, began }
    }

    /// Writes the terminal event.
    pub(crate) fn end(&self, terminal: Terminal) {
        self.emit(terminal.into());
    }
}

impl fmt::Debug for Emitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Emitter")
    }
}

impl Step<'_> {
    /// Ends the step.
    pub(crate) fn end(self, outcome: Outcome) {
        let duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.out.emit(Event::StepEnded { id: self.id, outcome, duration_ms });
    }

    /// Ends the step well, with all that it returned.
    pub(crate) fn succeed(self, result: Value) {
        self.end(Outcome::Succeeded { result, truncated: false });
    }

    /// Ends the step badly.
    pub(crate) fn fail(self, error: impl Into<String>) {
        self.end(Outcome::Failed { error: error.into(), result: None });
    }
}

impl Lines {
    fn write(&mut self, event: Event) {
        if self.ended {
            return;
        }
        self.ended = event.is_terminal();
        self.written += 1;
        let line = AgentLine { n: self.written, ts: now(), event };
        // Events are made of strings, numbers and JSON values: all of them encode.
        let Ok(mut bytes) = serde_json::to_vec(&line) else { return };
        bytes.push(b'\n');
        // Without a reader there is nobody to tell. The runner sees the end of
        // this process and explains it.
        let _ = self.out.write_all(&bytes).and_then(|()| self.out.flush());
    }
}

/// Unix milliseconds.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use wire::run::{AgentLine, Event, Level, Terminal};

    use super::Emitter;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(kept: &Kept) -> Vec<AgentLine> {
        let bytes = kept.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_numbered_without_gaps_from_any_thread() {
        let kept = Kept::default();
        let out = Emitter::to(kept.clone());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        out.log(Level::Info, "a line\nof two");
                        out.step("shell", json!({})).succeed(json!(1));
                    }
                });
            }
        });
        let numbers: Vec<u64> = lines(&kept).iter().map(|line| line.n).collect();
        assert_eq!(numbers, (1..=8 * 50 * 3).collect::<Vec<u64>>());
    }

    #[test]
    fn nothing_comes_after_a_terminal_event() {
        let kept = Kept::default();
        let out = Emitter::to(kept.clone());
        out.end(Terminal::Result { message: "done".into() });
        out.log(Level::Info, "late");
        out.end(Terminal::Result { message: "again".into() });
        let lines = lines(&kept);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].event, Event::Result { message: "done".into() });
    }
}
