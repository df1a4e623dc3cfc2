//! OpenAI's Responses, without state on their side: the whole conversation
//! goes along each time, and nothing is stored.
//!
//! Output items are told apart by `output_index`. A message is text, a function
//! call has arguments in pieces and then whole, and reasoning is heard as
//! summaries; it goes back only when it came encrypted, since nobody keeps it.

mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wire::agent::ModelConfig;

use super::{
    Answer, Conversation, Delta, Stop, ToolCall,
    allowance::Allowance,
    arguments::Arguments,
    dialect::{Assembly, Dialect, Event, Progress, StreamError},
    error::BadAnswer,
    refusal::Refusal,
};

/// OpenAI's Responses.
pub(super) struct Responses {
    config: ModelConfig,
}

impl Responses {
    pub(super) fn new(config: &ModelConfig) -> Responses {
        Responses { config: config.clone() }
    }
}

impl Dialect for Responses {
    type Assembly = Items;
    const PATH: &'static str = "/model/responses";
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    fn body(&self, conversation: &Conversation) -> Value {
        request::body(&self.config, conversation)
    }

    fn assembly(&self) -> Items {
        Items { items: BTreeMap::new(), stop: None, allowance: Allowance::new() }
    }
}

/// The items of an answer that is still coming.
pub(super) struct Items {
    items: BTreeMap<u64, Item>,
    stop: Option<Stop>,
    allowance: Allowance,
}

enum Item {
    Message(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// The item as it goes back, if it can.
    Reasoning(Option<Value>),
}

impl Assembly for Items {
    fn event(&mut self, data: &str, heard: &mut Vec<Delta>) -> Result<Progress, StreamError> {
        let event = Event::parse(data)?;
        match event.kind.as_str() {
            "response.output_item.added" => self.added(&event)?,
            "response.output_text.delta" | "response.refusal.delta" => {
                let piece = event.text("delta")?;
                self.allowance.take(piece)?;
                match self.item(&event)? {
                    Item::Message(text) => text.push_str(piece),
                    Item::Call { .. } | Item::Reasoning(_) => {
                        return Err(event.lacks("output_index").into());
                    }
                }
                heard.push(Delta::Text(piece.to_owned()));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let piece = event.text("delta")?;
                self.allowance.take(piece)?;
                heard.push(Delta::Reasoning(piece.to_owned()));
            }
            "response.function_call_arguments.delta" => {
                let piece = event.text("delta")?;
                self.allowance.take(piece)?;
                self.arguments(&event)?.push_str(piece);
            }
            "response.function_call_arguments.done" => {
                let whole = event.text("arguments")?;
                self.whole_arguments(&event, whole)?;
            }
            "response.output_item.done" => self.done(&event)?,
            "response.completed" => {
                self.stop = Some(Stop::Finished);
                return Ok(Progress::Complete);
            }
            "response.incomplete" => {
                self.stop = Some(incomplete(&event)?);
                return Ok(Progress::Complete);
            }
            "response.failed" => {
                let refusal = Refusal::from_value(event.object("response")?);
                return Err(StreamError::Reported(refusal));
            }
            "error" => return Err(StreamError::Reported(Refusal::from_value(event.value()))),
            // Parts of items begin and end, and the API adds kinds of events.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn begun(&self) -> bool {
        !self.items.is_empty()
    }

    fn finish(self) -> Result<Answer, BadAnswer> {
        let mut answer = Answer::ended(self.stop.ok_or(BadAnswer::NoStop)?);
        for item in self.items.into_values() {
            item.join(&mut answer);
        }
        if answer.stop == Stop::Finished && !answer.calls.is_empty() {
            answer.stop = Stop::Tools;
        }
        Ok(answer)
    }
}

impl Items {
    fn added(&mut self, event: &Event) -> Result<(), BadAnswer> {
        let index = event.number("output_index")?;
        let item = event.object("item")?;
        let item = match event.text_of(item, "type")? {
            "message" => Item::Message(String::new()),
            "function_call" => {
                let calls = self.items.values().filter(|item| item.is_call()).count();
                Allowance::one_more_call(calls)?;
                Item::Call {
                    id: event.text_of(item, "call_id")?.to_owned(),
                    name: event.text_of(item, "name")?.to_owned(),
                    arguments: String::new(),
                }
            }
            "reasoning" => Item::Reasoning(None),
            other => {
                return Err(BadAnswer::Unknown { what: "output item", name: other.to_owned() });
            }
        };
        // An item costs memory even when it is empty.
        self.allowance.take("item")?;
        if self.items.insert(index, item).is_some() {
            return Err(event.lacks("output_index"));
        }
        Ok(())
    }

    /// What only the finished item has: the arguments of servers that send no
    /// pieces, and reasoning that can go back.
    fn done(&mut self, event: &Event) -> Result<(), BadAnswer> {
        let index = event.number("output_index")?;
        if !self.items.contains_key(&index) {
            self.added(event)?;
        }
        let item = event.object("item")?;
        if let Some(whole) = item.get("arguments").and_then(Value::as_str) {
            return self.whole_arguments(event, whole);
        }
        if let Some(Item::Reasoning(replay)) = self.items.get_mut(&index) {
            let encrypted = item.get("encrypted_content").and_then(Value::as_str);
            if let Some(encrypted) = encrypted {
                self.allowance.take(encrypted)?;
                let summary = item.get("summary").cloned().unwrap_or_else(|| json!([]));
                *replay = Some(json!({
                    "type": "reasoning",
                    "summary": summary,
                    "encrypted_content": encrypted,
                }));
            }
        }
        Ok(())
    }

    fn whole_arguments(&mut self, event: &Event, whole: &str) -> Result<(), BadAnswer> {
        let arguments = self.arguments(event)?;
        if *arguments != whole {
            let new = whole.to_owned();
            *arguments = new;
            self.allowance.take(whole)?;
        }
        Ok(())
    }

    fn item(&mut self, event: &Event) -> Result<&mut Item, BadAnswer> {
        let index = event.number("output_index")?;
        self.items.get_mut(&index).ok_or_else(|| event.lacks("output_index"))
    }

    fn arguments(&mut self, event: &Event) -> Result<&mut String, BadAnswer> {
        match self.item(event)? {
            Item::Call { arguments, .. } => Ok(arguments),
            Item::Message(_) | Item::Reasoning(_) => Err(event.lacks("output_index")),
        }
    }
}

impl Item {
    fn is_call(&self) -> bool {
        matches!(self, Item::Call { .. })
    }

    /// Adds the item to an answer, both as we read it and as it goes back.
    /// Ids are left out: they name things that nobody keeps.
    fn join(self, answer: &mut Answer) {
        match self {
            Item::Message(text) if text.is_empty() => {}
            Item::Message(text) => {
                answer.replay.push(request::said("assistant", "output_text", &text));
                answer.text.push_str(&text);
            }
            Item::Call { id, name, arguments } => {
                let arguments = Arguments::parse(&arguments);
                answer.replay.push(json!({
                    "type": "function_call",
                    "call_id": id,
                    "name": name,
                    "arguments": arguments.text(),
                }));
                answer.calls.push(ToolCall { id, name, arguments });
            }
            Item::Reasoning(replay) => answer.replay.extend(replay),
        }
    }
}

fn incomplete(event: &Event) -> Result<Stop, BadAnswer> {
    let response = event.object("response")?;
    let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
    match reason {
        Some("max_output_tokens") => Ok(Stop::Length),
        Some("content_filter") => Err(BadAnswer::Declined),
        Some(other) => {
            Err(BadAnswer::Unknown { what: "incomplete answer", name: other.to_owned() })
        }
        None => Err(event.lacks("incomplete_details")),
    }
}
