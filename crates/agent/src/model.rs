//! Who thinks: one seam, `Model`, in front of every provider.
//!
//! ```text
//! Conversation ──► Model::answer ──► deltas, as they come ──► Answer
//! ```
//!
//! `remote` speaks HTTP and knows timeouts and retries; a `Dialect` knows the
//! format of one provider and does no I/O; `scripted` is no model at all. What
//! a provider sends is hostile: sizes are bounded by `Allowance`, and anything
//! malformed is an error that says what was wrong.

mod allowance;
mod anthropic;
mod arguments;
mod backoff;
mod chat;
mod dialect;
mod error;
mod refusal;
mod remote;
mod responses;
mod scripted;

use std::pin::Pin;

use serde_json::Value;
use wire::agent::Provider;

use crate::session::Session;

pub(crate) use arguments::Arguments;
pub(crate) use error::ModelError;
use remote::Remote;
use scripted::Scripted;

/// A future that a trait object gives back.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that answers a conversation.
pub(crate) trait Model: Send + Sync {
    /// One answer. Deltas go to the listener as they come; after an error,
    /// those that went out already stay out.
    fn answer<'a>(
        &'a self,
        conversation: &'a Conversation,
        listener: &'a (dyn Listener + 'a),
    ) -> Pending<'a, Result<Answer, ModelError>>;
}

/// Who hears an answer while it comes.
pub(crate) trait Listener: Send + Sync {
    /// A piece of text or of thought.
    fn delta(&self, delta: Delta);
    /// The provider has to be asked again.
    fn retry(&self, notice: &str);
}

/// A piece of an answer that people may read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delta {
    Text(String),
    Reasoning(String),
}

/// Everything a model is told.
pub(crate) struct Conversation {
    pub(crate) system: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) tools: Vec<ToolSpec>,
}

/// One thing that was said or done, oldest first.
pub(crate) enum Entry {
    User(String),
    Assistant(String),
    /// An answer of this run; its provider's own form is kept in it.
    Answer(Answer),
    /// An answer of an earlier run that called tools; no provider's form of it is
    /// left.
    Earlier {
        text: String,
        calls: Vec<ToolCall>,
    },
    /// What the tools that the answer before called have returned, in its order.
    Results(Vec<ToolResult>),
}

/// A tool as a model sees it.
#[derive(Clone, Debug)]
pub(crate) struct ToolSpec {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) stop: Stop,
    /// The answer in the provider's own form, for the next round: thinking
    /// comes back with its signature, in its place. Empty where the provider
    /// wants nothing back but text and calls.
    pub(crate) replay: Vec<Value>,
}

impl Answer {
    /// One that ended so, and of which nothing has been put together yet.
    fn ended(stop: Stop) -> Answer {
        Answer { text: String::new(), calls: Vec::new(), stop, replay: Vec::new() }
    }
}

/// A tool that the model wants called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolCall {
    /// The provider's id, or one of ours where it gives none.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Arguments,
}

/// What a tool returned, as text for the model.
#[derive(Clone, Debug)]
pub(crate) struct ToolResult {
    pub(crate) call: String,
    pub(crate) content: String,
    pub(crate) outcome: ToolOutcome,
}

/// How a tool's call went, for providers that want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolOutcome {
    Succeeded,
    Failed,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is complete.
    Finished,
    /// It waits for its tools.
    Tools,
    /// The limit on tokens cut it off.
    Length,
}

/// The model that the session's configuration names.
pub(crate) fn of(session: &Session) -> Box<dyn Model> {
    let config = &session.config.model;
    match config.provider {
        Provider::Anthropic => Box::new(Remote::new(anthropic::Anthropic::new(config), session)),
        Provider::Openai => Box::new(Remote::new(chat::Chat::new(config), session)),
        Provider::OpenaiResponses => {
            Box::new(Remote::new(responses::Responses::new(config), session))
        }
        Provider::Scripted => Box::new(Scripted::new(config, &session.prompt)),
    }
}
