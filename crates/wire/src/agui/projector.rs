//! A run's log as AG-UI events.
//!
//! ```text
//! waiting ── started ──► running ── result | error ──► over
//!    └─────────── error | result ───────────────────────▲
//! ```
//!
//! Whatever a log holds, the stream keeps the rules: it begins with
//! `RUN_STARTED`, or is a `RUN_ERROR` alone for a run that never began, and ends
//! with one terminal event before which everything is closed. `speech` has the
//! messages, `calls` the tools.

use serde_json::{Map, Value, json};

use super::calls::Calls;
use super::speech::{Speech, Voice};
use super::{AguiEvent, AguiKind, AguiUsage, RunOutcome};
use crate::run::{ErrorCode, Event, RunEvent, custom};

/// The version of the protocol that we speak.
const VERSION: &str = "1.0";

/// Makes AG-UI events from the entries of one log, in their order.
///
/// To go on from the middle of a log, feed it the entries before and throw away
/// what the reader has had; `Position` says how much that is.
#[derive(Clone, Debug, Default)]
pub struct AguiProjector {
    phase: Phase,
}

#[derive(Clone, Debug, Default)]
enum Phase {
    #[default]
    Waiting,
    Running(Box<Run>),
    Over,
}

#[derive(Clone, Debug)]
struct Run {
    thread_id: String,
    run_id: String,
    speech: Speech,
    calls: Calls,
    usage: Option<AguiUsage>,
    provider: Option<String>,
    model: Option<String>,
}

impl AguiProjector {
    /// A projector at the beginning of a log.
    pub fn new() -> AguiProjector {
        AguiProjector::default()
    }

    /// Appends the events for an entry; many entries have several, some none.
    pub fn project(&mut self, entry: &RunEvent, out: &mut Vec<AguiEvent>) {
        let mut kinds = Vec::new();
        let metadata = match &mut self.phase {
            Phase::Waiting => self.begin(&entry.event, &mut kinds),
            Phase::Running(run) => {
                let metadata = run.go_on(entry, &mut kinds);
                if entry.event.is_terminal() {
                    self.phase = Phase::Over;
                }
                metadata
            }
            Phase::Over => None,
        };
        let timestamp = Some(entry.ts.min(AguiEvent::MAX_INTEGER));
        let first = out.len();
        out.extend(kinds.into_iter().map(|kind| AguiEvent { kind, timestamp, metadata: None }));
        // What an entry says beside its events belongs to the last of them.
        if let Some(last) = out[first..].last_mut() {
            last.metadata = metadata;
        }
    }

    fn begin(&mut self, event: &Event, out: &mut Vec<AguiKind>) -> Metadata {
        match event {
            Event::Started {
                run_id,
                sandbox_id,
                harness,
                provider,
                model,
                thread_id,
                client_run_id,
            } => {
                let own = run_id.as_str();
                let run = Run {
                    thread_id: thread_id.clone().unwrap_or_else(|| own.to_owned()),
                    run_id: client_run_id.clone().unwrap_or_else(|| own.to_owned()),
                    speech: Speech::new(own),
                    calls: Calls::new(own),
                    usage: None,
                    provider: provider.clone(),
                    model: model.clone(),
                };
                out.push(AguiKind::RunStarted {
                    thread_id: run.thread_id.clone(),
                    run_id: run.run_id.clone(),
                    protocol_version: VERSION.to_owned(),
                });
                self.phase = Phase::Running(Box::new(run));
                let mut mayfly = Map::new();
                mayfly.insert("runId".into(), own.into());
                mayfly.insert("harness".into(), harness.as_str().into());
                if let Some(id) = sandbox_id {
                    mayfly.insert("sandboxId".into(), id.as_str().into());
                }
                if let Some(model) = model {
                    mayfly.insert("model".into(), model.as_str().into());
                }
                metadata("mayfly", mayfly.into())
            }
            Event::Error { code, message } => {
                self.phase = Phase::Over;
                out.push(run_error(*code, message, None));
                None
            }
            // The ledger allows it, and no runner does it: there is no run to
            // which the message could belong.
            Event::Result { .. } => {
                self.phase = Phase::Over;
                out.push(run_error(ErrorCode::Internal, "the run ended before it started", None));
                None
            }
            Event::Log { .. }
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::StepStarted { .. }
            | Event::StepEnded { .. }
            | Event::Usage { .. }
            | Event::File { .. }
            | Event::Uploaded { .. }
            | Event::Custom { .. } => None,
        }
    }
}

/// What is said in a field of `metadata`.
pub(super) type Metadata = Option<Map<String, Value>>;

pub(super) fn metadata(reader: &str, value: Value) -> Metadata {
    Some(Map::from_iter([(reader.to_owned(), value)]))
}

impl Run {
    fn go_on(&mut self, entry: &RunEvent, out: &mut Vec<AguiKind>) -> Metadata {
        match &entry.event {
            Event::Started { .. } => {}
            Event::Log { level, message } => {
                out.push(custom(custom::LOG, json!({"level": level, "message": message})));
            }
            Event::Text { message_id, delta } => {
                self.speech.say(Voice::Text, message_id, delta, entry.seq, out);
                self.calls.follow(self.speech.open_text());
            }
            Event::Reasoning { message_id, delta } => {
                self.speech.say(Voice::Reasoning, message_id, delta, entry.seq, out);
            }
            Event::StepStarted { id, name, args } => {
                self.speech.close(out);
                self.calls.start(id, name, args, out);
            }
            Event::StepEnded { id, outcome, duration_ms } => {
                let metadata = self.calls.end(id, outcome, *duration_ms, out);
                if let Some(held) = self.calls.held() {
                    self.speech.stay_with(held);
                }
                return metadata;
            }
            Event::Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } => {
                let input = [*input_tokens, *cache_read_tokens, *cache_write_tokens];
                self.count(input, *output_tokens);
            }
            Event::File { change, path } => {
                let timestamp = entry.ts.min(AguiEvent::MAX_INTEGER);
                let value = json!({"type": change, "path": path, "timestamp": timestamp});
                out.push(custom(custom::FILE, value));
            }
            Event::Uploaded { files } => out.extend(files.iter().map(|file| {
                let value = json!({
                    "artifactId": file.id,
                    "name": file.name,
                    "mimeType": file.mime_type,
                    "size": file.size,
                });
                custom(custom::ARTIFACT, value)
            })),
            Event::Custom { name, value } => out.push(custom(name, readable(name, value))),
            Event::Result { message } => return self.finish(message, entry.seq, out),
            Event::Error { code, message } => {
                self.speech.close(out);
                out.push(run_error(*code, message, self.usage.take()));
            }
        }
        None
    }

    /// Adds to what the run took. Input is given in parts, and told as their sum.
    fn count(&mut self, [plain, read, write]: [u64; 3], output: u64) {
        let usage = self.usage.get_or_insert_with(|| AguiUsage {
            provider: self.provider.clone(),
            model: self.model.clone(),
            ..AguiUsage::default()
        });
        let add = |count: &mut u64, more: u64| {
            *count = count.saturating_add(more).min(AguiEvent::MAX_INTEGER);
        };
        for part in [plain, read, write] {
            add(&mut usage.input_tokens, part);
        }
        add(&mut usage.output_tokens, output);
        add(&mut usage.cached_input_tokens, read);
        add(&mut usage.cache_write_input_tokens, write);
        usage.total_tokens = usage.input_tokens;
        add(&mut usage.total_tokens, usage.output_tokens);
    }

    fn finish(&mut self, message: &str, seq: u64, out: &mut Vec<AguiKind>) -> Metadata {
        self.speech.close(out);
        if !self.speech.said_last(message) {
            self.speech.say(Voice::Text, "result", message, seq, out);
            self.speech.close(out);
        }
        out.push(AguiKind::RunFinished {
            thread_id: self.thread_id.clone(),
            run_id: self.run_id.clone(),
            result: json!({"message": message}),
            outcome: RunOutcome::Success { pending_tool_call_ids: self.calls.take_pending() },
            usage: self.usage.take().into_iter().collect(),
        });
        // Without it TanStack's client sends one more turn after a tool's result.
        metadata("tanstack", json!({"finishReason": "stop"}))
    }
}

/// The value of a custom event, as clients expect it that know its name.
fn readable(name: &str, value: &Value) -> Value {
    let mut value = value.clone();
    // TanStack's client looks there for the id, and breaks if there is nothing.
    if name == "approval-requested"
        && let Value::Object(question) = &mut value
        && let Some(id) = question.get("approvalId").cloned()
    {
        question.entry("approval").or_insert_with(|| json!({"id": id, "needsApproval": true}));
    }
    value
}

pub(super) fn custom(name: &str, value: Value) -> AguiKind {
    AguiKind::Custom { name: name.to_owned(), value }
}

fn run_error(code: ErrorCode, message: &str, usage: Option<AguiUsage>) -> AguiKind {
    AguiKind::RunError {
        message: message.to_owned(),
        code: code.name().to_owned(),
        usage: usage.into_iter().collect(),
    }
}
