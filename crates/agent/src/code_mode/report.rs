//! What is told of a program while it runs: events as they happen, and at last
//! its logs. All of it is bounded, since a program may print for ever.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{Fault, Phase};
use crate::emit::{Emitter, now};
use crate::tools;

/// Most messages of a console.
const MESSAGES: usize = 1000;
/// Most bytes of all of them.
const MESSAGES_BYTES: usize = 256 << 10;
/// Longest message.
const MESSAGE_BYTES: usize = 16 << 10;
/// Largest argument or result in an event; its step has the whole.
const VALUE_BYTES: usize = 64 << 10;
/// The last thing that is told of a program that says too much.
const ENOUGH: &str = "this program prints more than is told; the rest is left out";

/// How loud a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Log,
    Info,
    Warn,
    Error,
}

/// Tells of one program.
pub(super) struct Report<'a> {
    out: &'a Emitter,
    began: Instant,
    logs: RefCell<Vec<String>>,
    bytes: Cell<usize>,
}

impl<'a> Report<'a> {
    /// Tells that a program begins.
    pub(super) fn begin(out: &'a Emitter, code: &str) -> Report<'a> {
        let value = json!({"timestamp": now(), "codeLength": code.chars().count()});
        out.custom("code_mode:execution_started", value);
        let logs = RefCell::new(Vec::new());
        Report { out, began: Instant::now(), logs, bytes: Cell::new(0) }
    }

    /// Tells what it printed.
    pub(super) fn console(&self, level: Level, message: &str) {
        let mut logs = self.logs.borrow_mut();
        if logs.len() >= MESSAGES || self.bytes.get() >= MESSAGES_BYTES {
            return;
        }
        let message = shorten(message, MESSAGE_BYTES);
        self.bytes.set(self.bytes.get() + message.len());
        self.tell(&mut logs, level, &message);
        if logs.len() + 1 >= MESSAGES || self.bytes.get() >= MESSAGES_BYTES {
            self.bytes.set(MESSAGES_BYTES);
            self.tell(&mut logs, Level::Warn, ENOUGH);
        }
    }

    fn tell(&self, logs: &mut Vec<String>, level: Level, message: &str) {
        let value = json!({"level": level.name(), "message": message, "timestamp": now()});
        self.out.custom("code_mode:console", value);
        logs.push(format!("{}{message}", level.prefix()));
    }

    /// Tells that it calls a tool.
    pub(super) fn call(&self, function: &str, args: &Value) {
        let value = json!({"function": function, "args": fitting(args), "timestamp": now()});
        self.out.custom("code_mode:external_call", value);
    }

    /// Tells what the tool returned.
    pub(super) fn called(&self, function: &str, answer: &Result<Value, String>, took: Duration) {
        let took = milliseconds(took);
        match answer {
            Ok(result) => {
                let result = fitting(result);
                let value = json!({"function": function, "result": result, "duration": took});
                self.out.custom("code_mode:external_result", value);
            }
            Err(error) => {
                let error = shorten(error, MESSAGE_BYTES);
                let value = json!({"function": function, "error": error, "duration": took});
                self.out.custom("code_mode:external_error", value);
            }
        }
    }

    /// Tells that it is over, and in which phase it failed. Its logs.
    pub(super) fn end(self, phase: Phase, fault: Option<&Fault>) -> Vec<String> {
        let logs = self.logs.into_inner();
        let mut value = Map::new();
        value.insert("timestamp".to_owned(), json!(now()));
        value.insert("durationMs".to_owned(), json!(milliseconds(self.began.elapsed())));
        value.insert("phase".to_owned(), json!(phase.name()));
        value.insert("success".to_owned(), json!(fault.is_none()));
        value.insert("logCount".to_owned(), json!(logs.len()));
        if let Some(fault) = fault {
            value.insert("error".to_owned(), fault.shown());
        }
        self.out.custom("code_mode:execution_finished", Value::Object(value));
        logs
    }
}

impl Level {
    pub(super) fn parse(name: &str) -> Level {
        match name {
            "info" => Level::Info,
            "warn" => Level::Warn,
            "error" => Level::Error,
            _ => Level::Log,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Level::Log => "log",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// What a message has before it among the logs.
    fn prefix(self) -> &'static str {
        match self {
            Level::Log => "",
            Level::Info => "INFO: ",
            Level::Warn => "WARN: ",
            Level::Error => "ERROR: ",
        }
    }
}

/// The beginning of a text that is too long.
pub(super) fn shorten(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes)])
}

fn fitting(value: &Value) -> Value {
    tools::fit(value.clone(), VALUE_BYTES).0
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ENOUGH, Level, MESSAGES, Report};
    use crate::code_mode::{Fault, Phase};
    use crate::emit::kept::Kept;

    #[test]
    fn a_console_is_told_until_it_is_enough() {
        for (message, most) in [("x".to_owned(), MESSAGES), ("é\n".repeat(100_000), 20)] {
            let kept = Kept::default();
            let out = kept.emitter();
            let report = Report::begin(&out, "1");
            for _ in 0..2000 {
                report.console(Level::Error, &message);
            }
            let logs = report.end(Phase::Execute, None);
            assert!(logs.len() <= most, "{}", logs.len());
            assert_eq!(kept.customs("code_mode:console").len(), logs.len());
            assert_eq!(logs.last().unwrap(), &format!("WARN: {ENOUGH}"));
            assert!(logs[0].starts_with("ERROR: "));
            let finished = &kept.customs("code_mode:execution_finished")[0];
            assert_eq!(finished["logCount"], logs.len());
            assert_eq!(
                (&finished["phase"], &finished["success"]),
                (&json!("execute"), &json!(true))
            );
        }
    }

    #[test]
    fn a_failure_is_told_with_its_phase() {
        let kept = Kept::default();
        let out = kept.emitter();
        let fault = Fault::new("SyntaxError", "no");
        Report::begin(&out, "é1").end(Phase::Transpile, Some(&fault));
        assert_eq!(kept.customs("code_mode:execution_started")[0]["codeLength"], 2);
        let finished = &kept.customs("code_mode:execution_finished")[0];
        assert_eq!(finished["phase"], "transpile");
        assert_eq!(finished["error"], json!({"name": "SyntaxError", "message": "no"}));
    }
}
