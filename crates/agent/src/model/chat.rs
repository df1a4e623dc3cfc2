//! OpenAI's Chat Completions, and the many servers that speak them.
//!
//! Chunks carry fragments of text and of tool calls; calls are told apart by
//! `index`. Not everybody sends it, or an id, or a finish reason: what can be
//! understood is, since most of these servers are not OpenAI's.

mod calls;
mod request;
#[cfg(test)]
mod tests;

use serde_json::Value;
use wire::agent::ModelConfig;

use super::{
    Answer, Conversation, Delta, Stop,
    allowance::Allowance,
    dialect::{Assembly, Dialect, Progress, StreamError, object},
    error::BadAnswer,
    refusal::Refusal,
};
use calls::Calls;

/// OpenAI's Chat Completions.
pub(super) struct Chat {
    config: ModelConfig,
}

impl Chat {
    pub(super) fn new(config: &ModelConfig) -> Chat {
        Chat { config: config.clone() }
    }
}

impl Dialect for Chat {
    type Assembly = Chunks;
    const PATH: &'static str = "/model/chat/completions";
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    fn body(&self, conversation: &Conversation) -> Value {
        request::body(&self.config, conversation)
    }

    fn assembly(&self) -> Chunks {
        Chunks {
            text: String::new(),
            calls: Calls::default(),
            thought: Thought::None,
            stop: None,
            allowance: Allowance::new(),
        }
    }
}

/// The chunks of an answer that is still coming.
pub(super) struct Chunks {
    text: String,
    calls: Calls,
    thought: Thought,
    stop: Option<Stop>,
    allowance: Allowance,
}

/// Whether the model has been heard thinking.
#[derive(PartialEq, Eq)]
enum Thought {
    None,
    Heard,
}

impl Assembly for Chunks {
    fn event(&mut self, data: &str, heard: &mut Vec<Delta>) -> Result<Progress, StreamError> {
        if data.trim() == "[DONE]" {
            // Some servers know no finish reason.
            self.stop.get_or_insert(Stop::Finished);
            return Ok(Progress::Complete);
        }
        let chunk = object(data)?;
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(StreamError::Reported(Refusal::from_value(&chunk)));
        }
        let lacks = |field| BadAnswer::Field { event: "chunk".to_owned(), field };
        // A chunk with usage only has no choices, or none in the list.
        let choices = match chunk.get("choices") {
            None | Some(Value::Null) => return Ok(Progress::More),
            Some(choices) => choices.as_array().ok_or_else(|| lacks("choices"))?,
        };
        let Some(choice) = choices.first() else { return Ok(Progress::More) };
        match choice.get("delta") {
            None | Some(Value::Null) => {}
            Some(delta) if delta.is_object() => self.delta(delta, heard)?,
            Some(_) => return Err(lacks("delta").into()),
        }
        match choice.get("finish_reason") {
            None | Some(Value::Null) => {}
            Some(reason) => {
                let reason = reason.as_str().ok_or_else(|| lacks("finish_reason"))?;
                self.stop = stop(reason)?.or(self.stop);
            }
        }
        Ok(Progress::More)
    }

    fn begun(&self) -> bool {
        !self.text.is_empty() || !self.calls.is_empty() || self.thought == Thought::Heard
    }

    fn finish(self) -> Result<Answer, BadAnswer> {
        let stop = self.stop.ok_or(BadAnswer::NoStop)?;
        let calls = self.calls.finish()?;
        if stop == Stop::Tools && calls.is_empty() {
            return Err(BadAnswer::NoCalls);
        }
        Ok(Answer { text: self.text, calls, stop, replay: Vec::new() })
    }
}

impl Chunks {
    fn delta(&mut self, delta: &Value, heard: &mut Vec<Delta>) -> Result<(), BadAnswer> {
        // One server says `reasoning_content`, the next one `reasoning`.
        for field in ["reasoning_content", "reasoning"] {
            if let Some(piece) = piece(delta, field)? {
                self.allowance.take(piece)?;
                self.thought = Thought::Heard;
                heard.push(Delta::Reasoning(piece.to_owned()));
                break;
            }
        }
        // A refusal is what the model says instead of an answer.
        for field in ["content", "refusal"] {
            if let Some(piece) = piece(delta, field)? {
                self.allowance.take(piece)?;
                self.text.push_str(piece);
                heard.push(Delta::Text(piece.to_owned()));
            }
        }
        match delta.get("tool_calls") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::Array(fragments)) => {
                fragments.iter().try_for_each(|part| self.calls.fragment(part, &mut self.allowance))
            }
            Some(_) => Err(BadAnswer::Field { event: "chunk".to_owned(), field: "tool_calls" }),
        }
    }
}

/// A text in a delta, if there is any.
fn piece<'a>(delta: &'a Value, field: &'static str) -> Result<Option<&'a str>, BadAnswer> {
    match delta.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(BadAnswer::Field { event: "chunk".to_owned(), field }),
    }
}

/// What a finish reason means; an empty one means nothing yet.
fn stop(reason: &str) -> Result<Option<Stop>, BadAnswer> {
    match reason {
        "" => Ok(None),
        "stop" | "eos" | "end_turn" => Ok(Some(Stop::Finished)),
        "tool_calls" | "function_call" => Ok(Some(Stop::Tools)),
        "length" => Ok(Some(Stop::Length)),
        "content_filter" => Err(BadAnswer::Declined),
        other => Err(BadAnswer::Unknown { what: "finish reason", name: other.to_owned() }),
    }
}
