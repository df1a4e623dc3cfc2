//! The steps of a CLI that run, by the CLI's own ids of its calls.
//!
//! A CLI may say twice that a call began or ended, or end one that never did:
//! each step is opened once and closed once all the same. What would not fit
//! into a line of the log is cut here, or its step would never end.

use serde_json::{Value, json};
use wire::run::{Outcome, VALUE_LIMIT};

use crate::emit::{Emitter, Step};

/// Steps that run, in the order of their start.
pub(crate) struct Steps<'a> {
    out: &'a Emitter,
    open: Vec<(String, Step<'a>)>,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(out: &'a Emitter) -> Steps<'a> {
        Steps { out, open: Vec::new() }
    }

    /// Begins a step, unless it runs already.
    pub(crate) fn start(&mut self, call_id: &str, name: &str, args: Value) {
        if !self.is_open(call_id) {
            let args = match cut(&args) {
                Some(text) => json!({"truncated": true, "text": text}),
                None => args,
            };
            self.open.push((call_id.to_owned(), self.out.step(name, args)));
        }
    }

    /// Ends a step, if it runs.
    pub(crate) fn end(&mut self, call_id: &str, outcome: Outcome) {
        if let Some(at) = self.open.iter().position(|(id, _)| id == call_id) {
            self.open.remove(at).1.end(fitting(outcome));
        }
    }

    /// Whether that step runs.
    pub(crate) fn is_open(&self, call_id: &str) -> bool {
        self.open.iter().any(|(id, _)| id == call_id)
    }

    /// Whether any step runs.
    pub(crate) fn any_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Ends all that still run, in the words that the log has for it.
    pub(crate) fn interrupt_all(&mut self) {
        for (_, step) in self.open.drain(..) {
            step.fail("interrupted");
        }
    }
}

fn fitting(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Succeeded { result, truncated } => match cut(&result) {
            Some(text) => Outcome::Succeeded { result: Value::String(text), truncated: true },
            None => Outcome::Succeeded { result, truncated },
        },
        Outcome::Failed { error, result } => {
            let error = Value::String(error);
            Outcome::Failed {
                error: cut(&error).unwrap_or_else(|| text(&error)),
                result: result.filter(|result| cut(result).is_none()),
            }
        }
        Outcome::Deferred => Outcome::Deferred,
    }
}

/// The beginning of a value that is too large for a line. A byte of it is at
/// most six on the wire, so that it fits whatever it holds.
fn cut(value: &Value) -> Option<String> {
    if value.to_string().len() <= VALUE_LIMIT {
        return None;
    }
    let mut text = text(value);
    text.truncate(text.floor_char_boundary(VALUE_LIMIT / 2));
    Some(text)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::run::{Event, LINE_LIMIT, Outcome};

    use super::Steps;
    use crate::emit::kept::Kept;

    fn succeeded(result: Value) -> Outcome {
        Outcome::Succeeded { result, truncated: false }
    }

    #[test]
    fn a_step_begins_once_and_ends_once() {
        let kept = Kept::default();
        let out = kept.emitter();
        let mut steps = Steps::new(&out);
        steps.start("a", "shell", json!({}));
        steps.start("a", "shell", json!({}));
        steps.start("b", "shell", json!({}));
        steps.end("c", succeeded(json!(1)));
        steps.end("a", succeeded(json!(1)));
        steps.end("a", succeeded(json!(2)));
        assert!(!steps.is_open("a"));
        assert!(steps.is_open("b"));
        steps.interrupt_all();
        let events = kept.events();
        let ended = events.iter().filter(|event| matches!(event, Event::StepEnded { .. }));
        assert_eq!((events.len(), ended.count()), (4, 2));
    }

    #[test]
    fn what_is_too_large_for_a_line_is_cut() {
        let kept = Kept::default();
        let out = kept.emitter();
        let mut steps = Steps::new(&out);
        let large = "\u{1}".repeat(5 << 20);
        for (id, outcome) in [
            ("a", succeeded(json!(large))),
            ("b", succeeded(json!([large]))),
            ("c", Outcome::Failed { error: large.clone(), result: Some(json!(large)) }),
        ] {
            steps.start(id, "shell", json!({"command": large}));
            steps.end(id, outcome);
        }
        let events = kept.events();
        assert_eq!(events.len(), 6);
        for event in events {
            assert!(serde_json::to_vec(&event).unwrap().len() < LINE_LIMIT);
        }
    }
}
