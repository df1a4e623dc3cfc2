//! How much an agent may say at once, and what becomes of the rest.
//!
//! Sizes are those of the encoded JSON, so that no escaping makes a line of ours
//! longer than [`LINE_LIMIT`], which every reader of it may rely on.
//!
//! | what | over its limit |
//! |---|---|
//! | messages, deltas, errors, names of steps | the beginning, then `… [cut]` |
//! | the result of a step | its beginning as text, and `truncated: true` |
//! | the result of a failed step | left out; the error says so |
//! | arguments and custom values | `{"truncated": true, "text": "the beginning"}` |
//! | a value of too many values, or of too many within each other | as if it were too long |
//! | what others refer to: message ids, paths, custom names, uploaded files | refused |
//! | numbers | 2^53 - 1, the largest that every reader of JSON keeps |

use std::io;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Event, Outcome, Refusal, UploadedFile};

/// Bytes of one line, its line break left out.
pub const LINE_LIMIT: usize = 4 << 20;
/// Bytes of arguments, a result, a custom value, or the list of uploaded files.
pub const VALUE_LIMIT: usize = 1 << 20;
/// Values in one line. No value of [`VALUE_LIMIT`] bytes has more, since each takes
/// a byte and a comma; in memory each takes some fifty.
pub(super) const VALUES_LIMIT: usize = VALUE_LIMIT / 2;
/// Values in a value that goes into a line of ours, which has a few of its own.
const HELD_LIMIT: usize = VALUES_LIMIT - 64;
/// Values within values, for the same reason: readers of JSON stop at 128.
const DEPTH_LIMIT: usize = 120;
/// Bytes of a final message, or of one delta of it.
pub const MESSAGE_LIMIT: usize = 1 << 20;
/// Bytes of a log message, or of the message of an error.
pub const NOTE_LIMIT: usize = 64 << 10;
/// Bytes of a step's name.
pub const NAME_LIMIT: usize = 512;
/// Bytes of a message id.
pub const MESSAGE_ID_LIMIT: usize = 128;
/// Bytes of a custom event's name.
pub const CUSTOM_NAME_LIMIT: usize = 256;
/// Bytes of a path.
pub const PATH_LIMIT: usize = 8 << 10;
/// Steps of one run.
pub const STEPS_LIMIT: usize = 50_000;

const MARK: &str = "… [cut]";
const LARGEST_INTEGER: u64 = (1 << 53) - 1;

/// The event with everything in it bounded.
pub(super) fn bounded(event: Event) -> Result<Event, Refusal> {
    Ok(match event {
        Event::Started {
            run_id,
            sandbox_id,
            harness,
            provider,
            model,
            thread_id,
            client_run_id,
        } => Event::Started {
            run_id,
            sandbox_id,
            harness: text(harness, NAME_LIMIT),
            provider: provider.map(|provider| text(provider, NAME_LIMIT)),
            model: model.map(|model| text(model, NAME_LIMIT)),
            // A caller finds its run by them: what it may say is never cut here.
            thread_id: thread_id.map(|id| text(id, NOTE_LIMIT)),
            client_run_id: client_run_id.map(|id| text(id, NOTE_LIMIT)),
        },
        Event::Log { level, message } => Event::Log { level, message: text(message, NOTE_LIMIT) },
        Event::Text { message_id, delta } => Event::Text {
            message_id: whole("a message id", message_id, MESSAGE_ID_LIMIT)?,
            delta: text(delta, MESSAGE_LIMIT),
        },
        Event::Reasoning { message_id, delta } => Event::Reasoning {
            message_id: whole("a message id", message_id, MESSAGE_ID_LIMIT)?,
            delta: text(delta, MESSAGE_LIMIT),
        },
        Event::StepStarted { id, name, args } => {
            Event::StepStarted { id, name: text(name, NAME_LIMIT), args: marked(args) }
        }
        Event::StepEnded { id, outcome, duration_ms } => Event::StepEnded {
            id,
            outcome: bounded_outcome(outcome),
            duration_ms: duration_ms.min(LARGEST_INTEGER),
        },
        Event::Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } => {
            Event::Usage {
                input_tokens: input_tokens.min(LARGEST_INTEGER),
                output_tokens: output_tokens.min(LARGEST_INTEGER),
                cache_read_tokens: cache_read_tokens.min(LARGEST_INTEGER),
                cache_write_tokens: cache_write_tokens.min(LARGEST_INTEGER),
            }
        }
        Event::File { change, path } => {
            Event::File { change, path: whole("a path", path, PATH_LIMIT)? }
        }
        Event::Uploaded { files } => Event::Uploaded { files: bounded_files(files)? },
        Event::Custom { name, value } => Event::Custom {
            name: whole("a custom name", name, CUSTOM_NAME_LIMIT)?,
            value: marked(value),
        },
        Event::Result { message } => Event::Result { message: text(message, MESSAGE_LIMIT) },
        Event::Error { code, message } => Event::Error { code, message: text(message, NOTE_LIMIT) },
    })
}

fn bounded_outcome(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Succeeded { result, truncated } => match bounded_value(result, VALUE_LIMIT) {
            Bounded::Whole(result) => Outcome::Succeeded { result, truncated },
            Bounded::Cut(beginning) => {
                Outcome::Succeeded { result: Value::String(beginning), truncated: true }
            }
        },
        Outcome::Failed { mut error, result } => {
            let result = match result.map(|result| bounded_value(result, VALUE_LIMIT)) {
                // `null` reads back as no result, so it is written as none.
                None | Some(Bounded::Whole(Value::Null)) => None,
                Some(Bounded::Whole(result)) => Some(result),
                Some(Bounded::Cut(_)) => {
                    error = text(error, NOTE_LIMIT / 2);
                    error.push_str(" (its result is too large to keep)");
                    None
                }
            };
            Outcome::Failed { error: text(error, NOTE_LIMIT), result }
        }
        Outcome::Deferred => Outcome::Deferred,
    }
}

fn bounded_files(mut files: Vec<UploadedFile>) -> Result<Vec<UploadedFile>, Refusal> {
    for file in &mut files {
        file.size = file.size.min(LARGEST_INTEGER);
    }
    if !fits(&files, VALUE_LIMIT) {
        return Err(Refusal::TooLong { what: "a list of files", limit: VALUE_LIMIT });
    }
    Ok(files)
}

enum Bounded {
    Whole(Value),
    Cut(String),
}

fn bounded_value(value: Value, limit: usize) -> Bounded {
    if fits(&value, limit) && is_readable(&value, DEPTH_LIMIT, &mut { HELD_LIMIT }) {
        return Bounded::Whole(value);
    }
    let mut beginning = match value {
        Value::String(text) => text,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    // Two bytes are the quotes.
    beginning.truncate(fitting(&beginning, limit - 2));
    Bounded::Cut(beginning)
}

fn marked(value: Value) -> Value {
    // What remains of the limit is for the object around the text.
    match bounded_value(value, VALUE_LIMIT) {
        Bounded::Whole(value) => value,
        Bounded::Cut(mut text) => {
            text.truncate(fitting(&text, VALUE_LIMIT - 64));
            json!({ "truncated": true, "text": text })
        }
    }
}

fn text(mut text: String, limit: usize) -> String {
    if fitting(&text, limit) < text.len() {
        text.truncate(fitting(&text, limit - MARK.len()));
        text.push_str(MARK);
    }
    text
}

fn whole(what: &'static str, text: String, limit: usize) -> Result<String, Refusal> {
    if fitting(&text, limit) < text.len() {
        return Err(Refusal::TooLong { what, limit });
    }
    Ok(text)
}

/// How much of the text, in its own bytes, is at most `limit` bytes of JSON.
fn fitting(text: &str, limit: usize) -> usize {
    const LONGEST_ESCAPE: usize = 6;
    if text.len() <= limit / LONGEST_ESCAPE {
        return text.len();
    }
    let mut encoded = 0;
    for (position, character) in text.char_indices() {
        encoded += match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => LONGEST_ESCAPE,
            other => other.len_utf8(),
        };
        if encoded > limit {
            return position;
        }
    }
    text.len()
}

/// Whether whoever reads the line that it is in finds no more than is allowed: an
/// entry that cannot be read again would be the end of its log.
fn is_readable(value: &Value, depth: usize, values: &mut usize) -> bool {
    let Some(left) = values.checked_sub(1) else { return false };
    *values = left;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(items) => {
            depth > 0 && items.iter().all(|item| is_readable(item, depth - 1, values))
        }
        Value::Object(fields) => {
            depth > 0 && fields.values().all(|field| is_readable(field, depth - 1, values))
        }
    }
}

fn fits(value: &impl Serialize, limit: usize) -> bool {
    serde_json::to_writer(Allowance(limit), value).is_ok()
}

/// Takes so many bytes and keeps none of them.
struct Allowance(usize);

impl io::Write for Allowance {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{LINE_LIMIT, MESSAGE_LIMIT, NOTE_LIMIT, VALUE_LIMIT, bounded, fitting};
    use crate::run::{
        ErrorCode, Event, FileChange, Level, Outcome, Refusal, RunEvent, RunId, StepId,
        UploadedFile, to_raw,
    };

    /// Everything that may be long is: of characters that take most when escaped.
    fn long_events() -> Vec<Event> {
        let text = "\u{1}".repeat(5 << 20);
        let numbers = Value::Array(vec![json!(1e15); 1 << 20]);
        let id = StepId::from_number(1);
        vec![
            Event::Log { level: Level::Info, message: text.clone() },
            Event::Text { message_id: "m".into(), delta: text.clone() },
            Event::Reasoning { message_id: "m".into(), delta: text.clone() },
            Event::StepStarted { id: id.clone(), name: text.clone(), args: json!(text) },
            Event::StepStarted { id: id.clone(), name: text.clone(), args: numbers.clone() },
            ended(Outcome::Succeeded { result: json!({ "a": text }), truncated: false }),
            ended(Outcome::Succeeded { result: numbers.clone(), truncated: false }),
            ended(Outcome::Failed { error: text.clone(), result: Some(numbers.clone()) }),
            Event::Custom { name: "c".into(), value: numbers },
            Event::Result { message: text.clone() },
            Event::Error { code: ErrorCode::Internal, message: text },
        ]
    }

    fn ended(outcome: Outcome) -> Event {
        Event::StepEnded { id: StepId::from_number(1), outcome, duration_ms: 1 }
    }

    #[test]
    fn a_line_of_ours_is_never_over_the_line_limit() {
        for event in long_events() {
            let event = bounded(event).unwrap();
            let line = to_raw(&RunEvent {
                seq: u64::MAX,
                ts: u64::MAX,
                line: Some(u64::MAX),
                event: event.clone(),
            });
            assert!(line.len() <= LINE_LIMIT, "{}: {} bytes", &line[..80], line.len());
            assert_eq!(bounded(event.clone()), Ok(event), "what is bounded stays as it is");
        }
    }

    #[test]
    fn whatever_goes_into_the_log_can_be_read_again() {
        let deep = (0..126).fold(json!(1), |value, _| json!([value]));
        let many = Value::Array(vec![json!(0); VALUE_LIMIT / 2 - 1]);
        for value in [deep, many] {
            for event in [
                Event::Custom { name: "c".into(), value: value.clone() },
                ended(Outcome::Succeeded { result: json!([value]), truncated: false }),
                ended(Outcome::Failed { error: "e".into(), result: Some(value) }),
            ] {
                let event = bounded(event).unwrap();
                let entry = RunEvent { seq: 1, ts: 1, line: Some(1), event };
                assert_eq!(RunEvent::parse_line(to_raw(&entry).as_bytes()), Ok(entry));
            }
        }
        let held = (0..100).fold(json!(1), |value, _| json!([value]));
        let event = Event::Custom { name: "c".into(), value: held };
        assert_eq!(bounded(event.clone()), Ok(event));
    }

    #[test]
    fn the_names_that_a_caller_gives_are_kept_whole() {
        let name = "\u{1}".repeat(4096);
        let started = Event::Started {
            run_id: RunId::from_random([1; 15]),
            sandbox_id: None,
            harness: "builtin".into(),
            provider: None,
            model: None,
            thread_id: Some(name.clone()),
            client_run_id: Some(name),
        };
        assert_eq!(bounded(started.clone()), Ok(started));
    }

    #[test]
    fn what_is_cut_is_marked() {
        let Ok(Event::Result { message }) =
            bounded(Event::Result { message: "a".repeat(MESSAGE_LIMIT + 1) })
        else {
            panic!("a long message is cut");
        };
        assert_eq!(message.len(), MESSAGE_LIMIT);
        assert!(message.ends_with("aa… [cut]"));

        let result = json!("ä".repeat(VALUE_LIMIT / 2));
        let Ok(Event::StepEnded { outcome: Outcome::Succeeded { result, truncated }, .. }) =
            bounded(ended(Outcome::Succeeded { result, truncated: false }))
        else {
            panic!("a long result is cut");
        };
        assert!(truncated);
        assert_eq!(result.as_str().map(str::len), Some(VALUE_LIMIT - 2));

        let args = json!({ "key": "x".repeat(VALUE_LIMIT) });
        let step = Event::StepStarted { id: StepId::from_number(1), name: "n".into(), args };
        let Ok(Event::StepStarted { args, .. }) = bounded(step) else {
            panic!("long arguments are cut");
        };
        assert_eq!(args["truncated"], true);
        assert!(args["text"].as_str().unwrap().starts_with("{\"key\":\"xxx"));

        let failed =
            Outcome::Failed { error: "e".into(), result: Some(json!("x".repeat(VALUE_LIMIT))) };
        let expected =
            Outcome::Failed { error: "e (its result is too large to keep)".into(), result: None };
        assert_eq!(bounded(ended(failed)), Ok(ended(expected)));
    }

    #[test]
    fn what_fits_is_left_alone() {
        let whole = [
            Event::Log { level: Level::Debug, message: "a".repeat(NOTE_LIMIT) },
            Event::Result { message: "ä".repeat(MESSAGE_LIMIT / 2) },
            ended(Outcome::Succeeded {
                result: json!("x".repeat(VALUE_LIMIT - 2)),
                truncated: false,
            }),
        ];
        for event in whole {
            assert_eq!(bounded(event.clone()), Ok(event));
        }
    }

    #[test]
    fn what_others_refer_to_is_refused_rather_than_cut() {
        let long = "x".repeat(1 << 20);
        let file = UploadedFile {
            id: "f".into(),
            name: long.clone(),
            mime_type: "text/plain".into(),
            size: 1,
            sha256: "00".into(),
            storage_key: "k".into(),
        };
        for event in [
            Event::Text { message_id: long.clone(), delta: String::new() },
            Event::Reasoning { message_id: long.clone(), delta: String::new() },
            Event::File { change: FileChange::Create, path: long.clone() },
            Event::Custom { name: long, value: Value::Null },
            Event::Uploaded { files: vec![file] },
        ] {
            assert!(matches!(bounded(event), Err(Refusal::TooLong { .. })));
        }
    }

    #[test]
    fn numbers_stay_what_every_reader_of_json_keeps() {
        let event = Event::Usage {
            input_tokens: u64::MAX,
            output_tokens: 1,
            cache_read_tokens: 1 << 53,
            cache_write_tokens: 0,
        };
        let expected = Event::Usage {
            input_tokens: 9_007_199_254_740_991,
            output_tokens: 1,
            cache_read_tokens: 9_007_199_254_740_991,
            cache_write_tokens: 0,
        };
        assert_eq!(bounded(event), Ok(expected));
    }

    #[test]
    fn the_size_of_escaped_text_is_the_size_it_is_written_in() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        let encoded = serde_json::to_string(&all).unwrap().len() - 2;
        assert_eq!(fitting(&all, encoded), all.len());
        assert!(fitting(&all, encoded - 1) < all.len());
    }
}
