//! Anthropic's Messages: blocks that come one after the other, each with deltas.
//!
//! ```text
//! message_start ( content_block_start content_block_delta* content_block_stop )* message_delta message_stop
//! ```
//!
//! Blocks go back as they came in the next round: thinking is only accepted
//! with its signature, and in its place.

mod request;
#[cfg(test)]
mod tests;

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

/// Anthropic's Messages.
pub(super) struct Anthropic {
    config: ModelConfig,
}

impl Anthropic {
    pub(super) fn new(config: &ModelConfig) -> Anthropic {
        Anthropic { config: config.clone() }
    }
}

impl Dialect for Anthropic {
    type Assembly = Blocks;
    const PATH: &'static str = "/model/v1/messages";
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", "2023-06-01")];

    fn body(&self, conversation: &Conversation) -> Value {
        request::body(&self.config, conversation)
    }

    fn assembly(&self) -> Blocks {
        Blocks { blocks: Vec::new(), stop: None, allowance: Allowance::new() }
    }
}

/// The blocks of an answer that is still coming.
pub(super) struct Blocks {
    blocks: Vec<Block>,
    stop: Option<Stop>,
    allowance: Allowance,
}

enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    /// Thought that only the provider can read.
    Redacted(Value),
    ToolUse {
        id: String,
        name: String,
        input: Value,
        fragments: String,
    },
}

impl Assembly for Blocks {
    fn event(&mut self, data: &str, heard: &mut Vec<Delta>) -> Result<Progress, StreamError> {
        let event = Event::parse(data)?;
        match event.kind.as_str() {
            "content_block_start" => self.start(&event, heard)?,
            "content_block_delta" => self.delta(&event, heard)?,
            "message_delta" => {
                let delta = event.object("delta")?;
                if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
                    self.stop = Some(stop(reason)?);
                }
            }
            "message_stop" => return Ok(Progress::Complete),
            "error" => return Err(StreamError::Reported(Refusal::from_value(event.value()))),
            // `message_start`, `content_block_stop` and `ping` say nothing we
            // need, and the API reserves the right to add kinds of events.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn begun(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn finish(self) -> Result<Answer, BadAnswer> {
        let mut answer = Answer::ended(self.stop.ok_or(BadAnswer::NoStop)?);
        for block in self.blocks {
            block.join(&mut answer);
        }
        if answer.stop == Stop::Tools && answer.calls.is_empty() {
            return Err(BadAnswer::NoCalls);
        }
        Ok(answer)
    }
}

impl Blocks {
    fn start(&mut self, event: &Event, heard: &mut Vec<Delta>) -> Result<(), BadAnswer> {
        // Blocks come in order, so that a block's index is its place.
        if event.number("index")? != self.blocks.len() as u64 {
            return Err(event.lacks("index"));
        }
        let block = event.object("content_block")?;
        let text = |field| block.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let block = match event.text_of(block, "type")? {
            "text" => {
                let text = text("text");
                self.allowance.take(&text)?;
                if !text.is_empty() {
                    heard.push(Delta::Text(text.clone()));
                }
                Block::Text(text)
            }
            "thinking" => Block::Thinking { text: text("thinking"), signature: text("signature") },
            "redacted_thinking" => {
                self.allowance.take(&text("data"))?;
                Block::Redacted(block.clone())
            }
            "tool_use" => {
                let calls = self.blocks.iter().filter(|block| block.is_call()).count();
                Allowance::one_more_call(calls)?;
                let id = event.text_of(block, "id")?.to_owned();
                let name = event.text_of(block, "name")?.to_owned();
                let input = block.get("input").cloned().unwrap_or(Value::Null);
                Block::ToolUse { id, name, input, fragments: String::new() }
            }
            other => {
                return Err(BadAnswer::Unknown { what: "content block", name: other.to_owned() });
            }
        };
        self.blocks.push(block);
        Ok(())
    }

    fn delta(&mut self, event: &Event, heard: &mut Vec<Delta>) -> Result<(), BadAnswer> {
        let index = event.number("index")?;
        let delta = event.object("delta")?;
        let place = usize::try_from(index).ok().and_then(|index| self.blocks.get_mut(index));
        let block = place.ok_or_else(|| event.lacks("index"))?;
        let mut piece = |field| -> Result<&str, BadAnswer> {
            let piece = event.text_of(delta, field)?;
            self.allowance.take(piece)?;
            Ok(piece)
        };
        match (event.text_of(delta, "type")?, block) {
            ("text_delta", Block::Text(text)) => {
                let piece = piece("text")?;
                text.push_str(piece);
                heard.push(Delta::Text(piece.to_owned()));
            }
            ("thinking_delta", Block::Thinking { text, .. }) => {
                let piece = piece("thinking")?;
                text.push_str(piece);
                heard.push(Delta::Reasoning(piece.to_owned()));
            }
            ("signature_delta", Block::Thinking { signature, .. }) => {
                signature.push_str(piece("signature")?);
            }
            ("input_json_delta", Block::ToolUse { fragments, .. }) => {
                fragments.push_str(piece("partial_json")?);
            }
            (other, _) => {
                return Err(BadAnswer::Unknown { what: "delta here", name: other.to_owned() });
            }
        }
        Ok(())
    }
}

impl Block {
    fn is_call(&self) -> bool {
        matches!(self, Block::ToolUse { .. })
    }

    /// Adds the block to an answer, both as we read it and as it goes back.
    fn join(self, answer: &mut Answer) {
        match self {
            // The API takes no empty text back.
            Block::Text(text) if text.is_empty() => {}
            Block::Text(text) => {
                answer.text.push_str(&text);
                answer.replay.push(json!({"type": "text", "text": text}));
            }
            Block::Thinking { text, signature } => {
                let block = json!({"type": "thinking", "thinking": text, "signature": signature});
                answer.replay.push(block);
            }
            Block::Redacted(block) => answer.replay.push(block),
            Block::ToolUse { id, name, input, fragments } => {
                let arguments = if fragments.is_empty() {
                    Arguments::from_value(input)
                } else {
                    Arguments::parse(&fragments)
                };
                let input = arguments.object();
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
                answer.replay.push(block);
                answer.calls.push(ToolCall { id, name, arguments });
            }
        }
    }
}

fn stop(reason: &str) -> Result<Stop, BadAnswer> {
    match reason {
        "end_turn" | "stop_sequence" => Ok(Stop::Finished),
        "tool_use" => Ok(Stop::Tools),
        "max_tokens" | "model_context_window_exceeded" => Ok(Stop::Length),
        "refusal" => Err(BadAnswer::Declined),
        other => Err(BadAnswer::Unknown { what: "stop reason", name: other.to_owned() }),
    }
}
