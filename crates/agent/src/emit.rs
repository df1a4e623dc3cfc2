//! What the agent says: run events on its standard output, one JSON object a
//! line, numbered from 1 without gaps.
//!
//! A line is written whole and at once, under a lock: tools of one round run
//! beside each other, and a half line would be lost for good. Writing blocks
//! when nobody reads. That is meant: the host holds the output of a run until
//! somebody takes it up again, and no event is worth dropping.

#[cfg(test)]
pub(crate) mod kept;

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use wire::run::{AgentLine, Event, LINE_LIMIT, Level, Outcome, StepId, Terminal};

/// Writes the lines of one run. Shared by reference, or as a clone by what runs
/// beside the turn.
#[derive(Clone)]
pub(crate) struct Emitter {
    lines: Arc<Mutex<Lines>>,
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
        Emitter { lines: Arc::new(Mutex::new(lines)) }
    }

    /// Writes one event. After a terminal one nothing is written any more.
    pub(crate) fn emit(&self, event: Event) {
        self.lines().write(event);
    }

    /// How many lines were written.
    pub(crate) fn written(&self) -> u64 {
        self.lines().written
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
        let mut lines = self.lines();
        lines.steps += 1;
        let id = StepId::from_number(lines.steps);
        lines.write(Event::StepStarted { id: id.clone(), name: name.into(), args });
        Step { out: self, id, began }
    }

    /// Writes the terminal event.
    pub(crate) fn end(&self, terminal: Terminal) {
        self.emit(terminal.into());
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // A panic while the lock was held leaves nothing half done but a line.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut line = AgentLine { n: self.written, ts: now(), event };
        // Events are made of strings, numbers and JSON values: all of them encode.
        let Ok(mut bytes) = serde_json::to_vec(&line) else { return };
        if bytes.len() > LINE_LIMIT {
            // The host would drop it whole, and with a terminal one the outcome.
            line.event = shortened(line.event);
            let Ok(shorter) = serde_json::to_vec(&line) else { return };
            bytes = shorter;
        }
        bytes.push(b'\n');
        // Without a reader there is nobody to tell. The runner sees the end of
        // this process and explains it.
        let _ = self.out.write_all(&bytes).and_then(|()| self.out.flush());
    }
}

/// The event with the beginning of what is long in it. What refers to something
/// is left whole, and so are ends of steps, which their tools have bounded.
fn shortened(event: Event) -> Event {
    let value = |value: Value| json!({"truncated": true, "text": beginning(value.to_string())});
    match event {
        Event::Result { message } => Event::Result { message: beginning(message) },
        Event::Error { code, message } => Event::Error { code, message: beginning(message) },
        Event::Log { level, message } => Event::Log { level, message: beginning(message) },
        Event::Text { message_id, delta } => Event::Text { message_id, delta: beginning(delta) },
        Event::Reasoning { message_id, delta } => {
            Event::Reasoning { message_id, delta: beginning(delta) }
        }
        Event::StepStarted { id, name, args } => {
            Event::StepStarted { id, name: beginning(name), args: value(args) }
        }
        Event::Custom { name, value: custom } => Event::Custom { name, value: value(custom) },
        whole @ (Event::Started { .. }
        | Event::StepEnded { .. }
        | Event::Usage { .. }
        | Event::File { .. }
        | Event::Uploaded { .. }) => whole,
    }
}

/// So much of a text that it fits into a line, whatever it holds: a byte of it is
/// at most six on the wire.
fn beginning(mut text: String) -> String {
    if text.len() > LINE_LIMIT / 16 {
        text.truncate(text.floor_char_boundary(LINE_LIMIT / 16));
        text.push_str("… [cut]");
    }
    text
}

/// Unix milliseconds.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::run::{Event, LINE_LIMIT, Level, Terminal};

    use super::kept::Kept;

    #[test]
    fn lines_are_numbered_without_gaps_from_any_thread() {
        let kept = Kept::default();
        let out = kept.emitter();
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
        let numbers: Vec<u64> = kept.lines().iter().map(|line| line.n).collect();
        assert_eq!(numbers, (1..=8 * 50 * 3).collect::<Vec<u64>>());
    }

    #[test]
    fn what_is_too_long_for_a_line_is_cut_and_still_told() {
        let kept = Kept::default();
        let out = kept.emitter();
        let long = "\u{1}".repeat(LINE_LIMIT);
        out.emit(Event::Text { message_id: "m".into(), delta: long.clone() });
        out.custom("plan", json!({"steps": [long]}));
        let step = out.step(long.clone(), json!({"command": long}));
        step.succeed(json!(1));
        out.end(Terminal::Result { message: long.clone() });
        let lines = kept.lines();
        assert_eq!(lines.len(), 5);
        for line in &lines {
            assert!(serde_json::to_vec(line).unwrap().len() <= LINE_LIMIT);
        }
        assert!(matches!(&lines[4].event, Event::Result { message } if message.ends_with("[cut]")));
    }

    #[test]
    fn nothing_comes_after_a_terminal_event() {
        let kept = Kept::default();
        let out = kept.emitter();
        out.end(Terminal::Result { message: "done".into() });
        out.log(Level::Info, "late");
        out.end(Terminal::Result { message: "again".into() });
        let lines = kept.lines();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].event, Event::Result { message: "done".into() });
    }
}
