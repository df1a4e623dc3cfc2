//! From what Codex's app server writes to what happened. Pure: lines in, words
//! out, so that recorded transcripts can be read again.
//!
//! Whatever was streamed piece by piece comes once more as a whole, and is then
//! passed over. What belongs to another thread is a sub-agent's and is not told;
//! its questions are answered like any.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::run::{Level, Outcome};

use super::items;
use super::lines::{ErrorParams, ItemParams, Line, Notice, Piece, ServerStatus, TurnParams};
use super::questions::{Open, Question};

/// How a warning begins that comes in every turn with a model of another name
/// than the few that Codex knows.
const UNKNOWN_MODEL: &str = "Model metadata for ";

/// Something that happened.
pub(super) type Heard = crate::harness::heard::Heard<Own>;

/// What only Codex says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Own {
    /// A request of ours is answered.
    Answer { id: u64, outcome: Result<Value, String> },
    /// It wants an answer, under this id.
    Question { id: Value, question: Question },
    /// The turn is over.
    Ended(Verdict),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// With this message.
    Message(String),
    /// In these words.
    Failed(String),
}

/// How something comes in pieces. Some models have both kinds of thoughts, and
/// one is made of the other: only the first is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streamed {
    Text,
    Summary,
    Thought,
}

/// Reads the lines of one turn.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The thread that is told.
    thread: Option<String>,
    /// Items that are not complete.
    open: Open,
    /// Why items were denied.
    denials: BTreeMap<String, String>,
    /// What is being said and thought, by the ids of its items.
    spoken: BTreeMap<String, Spoken>,
    /// How much was said and thought so far.
    count: u64,
    /// The last complete message.
    message: String,
}

/// A message, or a thought, that is not complete. Providers choose ids of any
/// length, and some the same one again and again: these are numbered.
#[derive(Clone, Debug)]
struct Spoken {
    message_id: String,
    /// How it comes, if it came in pieces.
    streamed: Option<Streamed>,
}

impl Decoder {
    /// Says which thread the turn belongs to.
    pub(super) fn follow(&mut self, thread: &str) {
        self.thread = Some(thread.to_owned());
    }

    /// Says why an item was denied: Codex itself is not told.
    pub(super) fn denied(&mut self, item: String, reason: String) {
        self.denials.insert(item, reason);
    }

    /// What one line says. A line that is no JSON, or none that is known, says
    /// nothing.
    pub(super) fn decode(&mut self, line: &str) -> Vec<Heard> {
        let Ok(line) = serde_json::from_str::<Line>(line) else { return Vec::new() };
        match (line.method, line.id) {
            (Some(method), Some(id)) => {
                vec![Heard::Own(Own::Question {
                    id,
                    question: self.open.question(&method, &line.params),
                })]
            }
            (Some(method), None) => self.notification(&method, line.params),
            (None, Some(id)) => {
                let outcome = match line.error {
                    Some(error) => Err(error.message),
                    None => Ok(line.result.unwrap_or_default()),
                };
                id.as_u64().map(|id| Heard::Own(Own::Answer { id, outcome })).into_iter().collect()
            }
            (None, None) => Vec::new(),
        }
    }

    fn notification(&mut self, method: &str, params: Value) -> Vec<Heard> {
        let thread = params["threadId"].as_str();
        let ours = thread.is_none() || thread == self.thread.as_deref();
        match method {
            "item/started" => read(params, |ItemParams { item }| self.started(item, ours)),
            "item/completed" => read(params, |ItemParams { item }| self.completed(&item, ours)),
            _ if !ours => Vec::new(),
            "item/agentMessage/delta" => {
                read(params, |piece: Piece| self.piece(piece, Streamed::Text))
            }
            "item/reasoning/summaryTextDelta" => {
                read(params, |piece: Piece| self.piece(piece, Streamed::Summary))
            }
            "item/reasoning/textDelta" => {
                read(params, |piece: Piece| self.piece(piece, Streamed::Thought))
            }
            // Parts of a summary are paragraphs.
            "item/reasoning/summaryPartAdded" => read(params, |piece: Piece| {
                let delta = if piece.summary_index > 0 { "\n\n" } else { "" };
                self.piece(Piece { delta: delta.to_owned(), ..piece }, Streamed::Summary)
            }),
            "turn/plan/updated" => {
                let plan = json!({"explanation": params["explanation"], "plan": params["plan"]});
                vec![Heard::Plan(plan)]
            }
            "turn/completed" => read(params, |params: TurnParams| {
                vec![Heard::Own(Own::Ended(self.verdict(params)))]
            }),
            "error" => read(params, retry),
            "warning" | "guardianWarning" | "configWarning" => read(params, |notice: Notice| {
                let is_usual = notice.message.starts_with(UNKNOWN_MODEL);
                vec![logged(if is_usual { Level::Debug } else { Level::Warn }, notice)]
            }),
            "deprecationNotice" => read(params, |notice: Notice| vec![logged(Level::Info, notice)]),
            "mcpServer/startupStatus/updated" => read(params, server_status),
            _ => Vec::new(),
        }
    }

    fn started(&mut self, item: Value, ours: bool) -> Vec<Heard> {
        // What is searched for is known when it was found.
        if items::kind(&item) == "webSearch" {
            return Vec::new();
        }
        let id = items::id(&item).to_owned();
        let step = items::step(&item).filter(|_| ours);
        self.open.insert(item);
        step.map(|(name, args)| Heard::CallStarted { id, name, args }).into_iter().collect()
    }

    fn completed(&mut self, item: &Value, ours: bool) -> Vec<Heard> {
        let id = items::id(item).to_owned();
        let known = self.open.remove(&id).is_some();
        let denied = self.denials.remove(&id);
        if !ours {
            return Vec::new();
        }
        match items::kind(item) {
            "agentMessage" => {
                self.message = item["text"].as_str().unwrap_or_default().to_owned();
                let spoken = self.ended(&id);
                let delta = Some(self.message.clone()).filter(|text| !text.is_empty());
                let delta = delta.filter(|_| spoken.streamed.is_none());
                let whole = |delta| Heard::Text { message_id: spoken.message_id, delta };
                delta.map(whole).into_iter().collect()
            }
            "reasoning" => {
                let spoken = self.ended(&id);
                let delta = paragraphs(&item["summary"]).or_else(|| paragraphs(&item["content"]));
                let delta = delta.filter(|_| spoken.streamed.is_none());
                let whole = |delta| Heard::Reasoning { message_id: spoken.message_id, delta };
                delta.map(whole).into_iter().collect()
            }
            _ => {
                let Some((name, args)) = items::step(item) else { return Vec::new() };
                let outcome = match denied {
                    Some(error) => Outcome::Failed { error, result: None },
                    None => items::outcome(item),
                };
                let begun = (!known).then(|| Heard::CallStarted { id: id.clone(), name, args });
                begun.into_iter().chain([Heard::CallEnded { id, outcome }]).collect()
            }
        }
    }

    fn piece(&mut self, piece: Piece, kind: Streamed) -> Vec<Heard> {
        let Piece { item_id, delta, .. } = piece;
        let spoken = self.begun(&item_id);
        if delta.is_empty() || *spoken.streamed.get_or_insert(kind) != kind {
            return Vec::new();
        }
        let message_id = spoken.message_id.clone();
        match kind {
            Streamed::Text => vec![Heard::Text { message_id, delta }],
            Streamed::Summary | Streamed::Thought => vec![Heard::Reasoning { message_id, delta }],
        }
    }

    fn begun(&mut self, item: &str) -> &mut Spoken {
        let count = &mut self.count;
        self.spoken.entry(item.to_owned()).or_insert_with(|| {
            *count += 1;
            Spoken { message_id: format!("msg_{count}"), streamed: None }
        })
    }

    fn ended(&mut self, item: &str) -> Spoken {
        let spoken = self.begun(item).clone();
        self.spoken.remove(item);
        spoken
    }

    fn verdict(&mut self, params: TurnParams) -> Verdict {
        let turn = params.turn;
        match (turn.status.as_str(), turn.error) {
            ("completed", _) => Verdict::Message(std::mem::take(&mut self.message)),
            (_, Some(error)) => Verdict::Failed(error.words()),
            (status, None) => Verdict::Failed(format!("codex ended its turn as `{status}`")),
        }
    }
}

/// Reads the parameters of a notification; those that are not as they should be
/// say nothing.
fn read<P: DeserializeOwned>(params: Value, then: impl FnOnce(P) -> Vec<Heard>) -> Vec<Heard> {
    serde_json::from_value(params).map(then).unwrap_or_default()
}

/// An error that is not the end. The one that is comes with the end of the turn.
fn retry(params: ErrorParams) -> Vec<Heard> {
    if !params.will_retry {
        return Vec::new();
    }
    let message = match &params.error.additional_details {
        Some(details) => format!("{}: {details}", params.error.message),
        None => params.error.words(),
    };
    vec![Heard::Log { level: Level::Warn, message }]
}

fn logged(level: Level, notice: Notice) -> Heard {
    let message = match notice.details {
        Some(details) => format!("{}: {details}", notice.message),
        None => notice.message,
    };
    Heard::Log { level, message }
}

fn server_status(server: ServerStatus) -> Vec<Heard> {
    if server.status != "failed" {
        return Vec::new();
    }
    let why = server.error.map(|error| format!(": {error}")).unwrap_or_default();
    let message = format!("MCP server `{}` is not available{why}", server.name);
    vec![Heard::Log { level: Level::Warn, message }]
}

/// The texts of a list as paragraphs; nothing if there are none.
fn paragraphs(texts: &Value) -> Option<String> {
    let texts: Vec<&str> = texts.as_array()?.iter().filter_map(Value::as_str).collect();
    Some(texts.join("\n\n")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
