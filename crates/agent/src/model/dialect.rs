//! The format of one provider, without I/O: a request's body, and an answer
//! put together from the events of a stream.

use serde_json::Value;

use super::{Answer, Conversation, Delta, error::BadAnswer, refusal::Refusal};

/// How one provider is spoken to.
pub(super) trait Dialect: Send + Sync {
    /// Puts one answer together.
    type Assembly: Assembly;
    /// Where questions go, below the host link.
    const PATH: &'static str;
    /// Headers beside those of every JSON request.
    const HEADERS: &'static [(&'static str, &'static str)];

    /// The body of a request.
    fn body(&self, conversation: &Conversation) -> Value;
    /// An answer of which nothing has come yet.
    fn assembly(&self) -> Self::Assembly;
}

/// An answer that is still coming.
pub(super) trait Assembly: Send {
    /// Takes the data of one event; what people may read at once is added to
    /// `heard`. After an error the answer is worth nothing.
    fn event(&mut self, data: &str, heard: &mut Vec<Delta>) -> Result<Progress, StreamError>;
    /// Whether any content has come: from then on asking again would say
    /// things twice.
    fn begun(&self) -> bool;
    /// The whole answer, once no more will come.
    fn finish(self) -> Result<Answer, BadAnswer>;
}

/// Whether more of an answer is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Complete,
}

/// Why an event could not be taken.
#[derive(Debug)]
pub(super) enum StreamError {
    BadAnswer(BadAnswer),
    /// The event is the provider's account of its own failure.
    Reported(Refusal),
}

impl From<BadAnswer> for StreamError {
    fn from(bad: BadAnswer) -> StreamError {
        StreamError::BadAnswer(bad)
    }
}

/// The data of one event as an object, with the kind it has.
pub(super) struct Event {
    pub(super) kind: String,
    value: Value,
}

impl Event {
    /// Reads the data of an event whose kind is in `type`.
    pub(super) fn parse(data: &str) -> Result<Event, BadAnswer> {
        let value = object(data)?;
        let kind = value.get("type").and_then(Value::as_str);
        let missing = || BadAnswer::Field { event: "?".to_owned(), field: "type" };
        let kind = kind.ok_or_else(missing)?.to_owned();
        Ok(Event { kind, value })
    }

    /// All of it.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    /// An object in it.
    pub(super) fn object(&self, field: &'static str) -> Result<&Value, BadAnswer> {
        self.value.get(field).filter(|value| value.is_object()).ok_or_else(|| self.lacks(field))
    }

    /// A text in it.
    pub(super) fn text(&self, field: &'static str) -> Result<&str, BadAnswer> {
        self.text_of(&self.value, field)
    }

    /// A text in one of its objects.
    pub(super) fn text_of<'a>(
        &self,
        value: &'a Value,
        field: &'static str,
    ) -> Result<&'a str, BadAnswer> {
        value.get(field).and_then(Value::as_str).ok_or_else(|| self.lacks(field))
    }

    /// A count in it.
    pub(super) fn number(&self, field: &'static str) -> Result<u64, BadAnswer> {
        self.value.get(field).and_then(Value::as_u64).ok_or_else(|| self.lacks(field))
    }

    /// The error for a field that is missing or of another type.
    pub(super) fn lacks(&self, field: &'static str) -> BadAnswer {
        BadAnswer::Field { event: self.kind.clone(), field }
    }
}

/// The data of an event as JSON.
pub(super) fn object(data: &str) -> Result<Value, BadAnswer> {
    let bad = |reason: String| {
        let start: String = data.chars().take(80).collect();
        BadAnswer::NoJson(format!("{reason}, in `{start}`"))
    };
    match serde_json::from_str::<Value>(data) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(bad("not an object".to_owned())),
        Err(err) => Err(bad(err.to_string())),
    }
}

/// Takes all events of a recorded answer, for tests.
#[cfg(test)]
pub(super) fn assemble<A: Assembly>(
    mut assembly: A,
    events: &[&str],
) -> (Vec<Delta>, Result<Answer, String>) {
    let mut heard = Vec::new();
    for data in events {
        match assembly.event(data, &mut heard) {
            Ok(Progress::More) => {}
            Ok(Progress::Complete) => break,
            Err(StreamError::BadAnswer(bad)) => return (heard, Err(bad.to_string())),
            Err(StreamError::Reported(refusal)) => return (heard, Err(refusal.shown())),
        }
    }
    (heard, assembly.finish().map_err(|bad| bad.to_string()))
}
