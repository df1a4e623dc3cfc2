//! Turns what a CLI tells of its turn into what happened. Pure: it reads no
//! pipe and writes no event.
//!
//! ```text
//! tool_call (pending) ──► begun, once its arguments are there ──► ended, once
//! ```
//!
//! Only the session that was asked counts: sub-agents have sessions of their
//! own. A CLI that asks its model again repeats what it said; that becomes a
//! new message, and the last one is the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use serde_json::{Value, json};
use wire::run::{Level, Outcome};

use super::call::{self, Dialect, Reader, Shown, Teller};

/// Most bytes of a message that are kept for the end of the turn.
const MESSAGE_BYTES: usize = 4 << 20;

/// What happened; these CLIs say nothing that others do not.
pub(super) type Heard = crate::harness::heard::Heard<Infallible>;

/// Reads one turn.
#[derive(Debug)]
pub(super) struct Decoder {
    session_id: String,
    reader: Reader,
    /// Largest result that is kept whole.
    result_bytes: u64,
    calls: BTreeMap<String, Call>,
    /// Calls that ended: whatever is told of them later is no new call.
    over: BTreeSet<String>,
    /// Why calls were not allowed, by their ids.
    denied: BTreeMap<String, String>,
    messages: Messages,
}

/// A call that runs.
#[derive(Clone, Debug)]
struct Call {
    name: String,
    args: Value,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its arguments are still on their way.
    Pending,
    /// It is in the log.
    Told,
    /// The host tells of it.
    Silent,
}

/// What the model says, message by message.
#[derive(Debug, Default)]
struct Messages {
    count: u64,
    /// The CLI's own name for the current message.
    id: Option<String>,
    current: String,
    /// The one before that said anything.
    last: String,
    stage: Speech,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Speech {
    /// The next word begins a message.
    #[default]
    Silent,
    /// The next word goes on with one.
    Speaking,
}

impl Decoder {
    pub(super) fn new(
        dialect: Dialect,
        servers: &[String],
        session_id: &str,
        result_bytes: u64,
    ) -> Decoder {
        Decoder {
            session_id: session_id.to_owned(),
            reader: Reader::new(dialect, servers),
            result_bytes,
            calls: BTreeMap::new(),
            over: BTreeSet::new(),
            denied: BTreeMap::new(),
            messages: Messages::default(),
        }
    }

    /// Reads one notice of the CLI.
    pub(super) fn notice(&mut self, method: &str, params: &Value) -> Vec<Heard> {
        let ours = params["sessionId"].as_str() == Some(self.session_id.as_str());
        let update = &params["update"];
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match (method, kind) {
            _ if !ours => Vec::new(),
            ("session/update", "agent_message_chunk") => self.text(update),
            ("session/update", "agent_thought_chunk") => self.thought(update),
            ("session/update", "tool_call" | "tool_call_update") => self.call(update),
            ("session/update", "plan") => vec![Heard::Plan(update["entries"].clone())],
            // Grok Build's own.
            ("_x.ai/session_notification", "retry_state") if update["type"] == "retrying" => {
                let reason = update["reason"].as_str().unwrap_or("the model is asked again");
                self.retry(reason)
            }
            _ => Vec::new(),
        }
    }

    /// The model failed and is asked again: what it says now is a new message.
    pub(super) fn retry(&mut self, reason: &str) -> Vec<Heard> {
        self.messages.end();
        vec![Heard::Log { level: Level::Warn, message: reason.to_owned() }]
    }

    /// Something is told of a call, or asked about it. One that is pending has not
    /// all of its arguments yet: OpenCode may tell them after it asked.
    pub(super) fn call(&mut self, update: &Value) -> Vec<Heard> {
        let (id, status) = (id_of(update), update["status"].as_str().unwrap_or_default());
        self.meet(update);
        if status == "pending" {
            return Vec::new();
        }
        let mut happened = self.begin(id);
        happened.extend(self.finish(id, status, update));
        happened
    }

    /// The name and the arguments of a call, as the log has them.
    pub(super) fn shown(&self, call_id: &str) -> Option<Shown> {
        let call = self.calls.get(call_id)?;
        Some(self.reader.shown(&call.name, &call.args))
    }

    /// A call was not allowed: its failure is told in these words.
    pub(super) fn deny(&mut self, call_id: &str, reason: &str) {
        self.denied.insert(call_id.to_owned(), reason.to_owned());
        self.messages.end();
    }

    /// The CLI has answered: what was not allowed has failed, and whatever still
    /// runs is not told of any more.
    pub(super) fn end_turn(&mut self) -> Vec<Heard> {
        let denied = self.calls.keys().filter(|id| self.denied.contains_key(*id));
        let denied: Vec<String> = denied.cloned().collect();
        let failed = |id| self.call(&json!({"toolCallId": id, "status": "failed"}));
        let happened = denied.iter().flat_map(failed).collect();
        self.over.extend(std::mem::take(&mut self.calls).into_keys());
        happened
    }

    /// Whether a tool runs, so that nobody waits for the model.
    pub(super) fn tools_run(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether the model has said anything since the last call or retry.
    pub(super) fn speaks(&self) -> bool {
        self.messages.stage == Speech::Speaking && !self.messages.current.trim().is_empty()
    }

    /// The last message of the turn.
    pub(super) fn message(&self) -> String {
        let Messages { current, last, .. } = &self.messages;
        if current.trim().is_empty() { last.clone() } else { current.clone() }
    }

    fn text(&mut self, update: &Value) -> Vec<Heard> {
        let Some(delta) = spoken(update) else { return Vec::new() };
        let message_id = self.messages.say(update["messageId"].as_str(), delta);
        vec![Heard::Text { message_id, delta: delta.to_owned() }]
    }

    fn thought(&mut self, update: &Value) -> Vec<Heard> {
        let Some(delta) = spoken(update) else { return Vec::new() };
        let message_id = self.messages.think();
        vec![Heard::Reasoning { message_id, delta: delta.to_owned() }]
    }

    /// Keeps a call that is new, and the latest arguments of one that is not
    /// told yet.
    fn meet(&mut self, update: &Value) {
        let (id, args) = (id_of(update), &update["rawInput"]);
        match self.calls.get_mut(id) {
            Some(call) if call.stage == Stage::Pending && args.is_object() => {
                call.args = args.clone();
            }
            None if !self.over.contains(id) => {
                let (name, args) = (self.reader.name(update).to_owned(), args.clone());
                self.calls.insert(id.to_owned(), Call { name, args, stage: Stage::Pending });
            }
            Some(_) | None => {}
        }
    }

    /// Tells of a call, unless it is told or is the host's to tell.
    fn begin(&mut self, id: &str) -> Vec<Heard> {
        let Some(call) = self.calls.get_mut(id) else { return Vec::new() };
        if call.stage != Stage::Pending {
            return Vec::new();
        }
        self.messages.end();
        let Shown { name, args, teller } = self.reader.shown(&call.name, &call.args);
        match teller {
            Teller::Host => {
                call.stage = Stage::Silent;
                Vec::new()
            }
            Teller::Adapter => {
                call.stage = Stage::Told;
                vec![Heard::CallStarted { id: id.to_owned(), name, args }]
            }
        }
    }

    fn finish(&mut self, id: &str, status: &str, update: &Value) -> Vec<Heard> {
        let outcome = match status {
            "completed" => call::succeeded(update, self.result_bytes),
            "failed" => {
                let denied = self.denied.get(id).cloned();
                let error = denied.unwrap_or_else(|| call::complaint(update));
                Outcome::Failed { error, result: None }
            }
            _ => return Vec::new(),
        };
        self.over.insert(id.to_owned());
        match self.calls.remove(id).map(|call| call.stage) {
            Some(Stage::Told) => vec![Heard::CallEnded { id: id.to_owned(), outcome }],
            Some(Stage::Pending | Stage::Silent) | None => Vec::new(),
        }
    }
}

impl Messages {
    /// Adds to what is said, and names the message.
    fn say(&mut self, id: Option<&str>, delta: &str) -> String {
        if self.id.is_some() && id != self.id.as_deref() {
            self.end();
        }
        self.begin();
        self.id = id.map(str::to_owned);
        if self.current.len() + delta.len() <= MESSAGE_BYTES {
            self.current.push_str(delta);
        }
        self.name()
    }

    /// Names the message that a thought belongs to.
    fn think(&mut self) -> String {
        self.begin();
        self.name()
    }

    fn begin(&mut self) {
        if self.stage == Speech::Silent {
            self.stage = Speech::Speaking;
            self.count += 1;
        }
    }

    /// The next word begins a message.
    fn end(&mut self) {
        self.stage = Speech::Silent;
        self.id = None;
        let said = std::mem::take(&mut self.current);
        if !said.trim().is_empty() {
            self.last = said;
        }
    }

    fn name(&self) -> String {
        format!("msg_{}", self.count)
    }
}

fn id_of(update: &Value) -> &str {
    update["toolCallId"].as_str().unwrap_or_default()
}

fn spoken(update: &Value) -> Option<&str> {
    update["content"]["text"].as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
