//! From what Claude Code prints to what happened. Pure: lines in, words out, so
//! that recorded transcripts can be read again.
//!
//! Whatever was streamed piece by piece comes once more as a whole, and is then
//! passed over. What a sub-agent says belongs to the call that started it, and
//! calls of the caller's own tools are booked by the host: neither is told here.

use std::collections::BTreeSet;

use serde_json::Value;
use wire::run::{Level, MESSAGE_ID_LIMIT, Outcome};

use super::lines::{
    Assistant, Block, ControlRequest, ControlResponse, Delta, Line, StreamEvent, System, TurnResult,
};
use super::permission::is_bridged;

/// The model's name in messages that the CLI itself made up, such as errors.
const SYNTHETIC: &str = "<synthetic>";

/// Something that happened.
pub(super) type Heard = crate::harness::heard::Heard<Own>;

/// What only Claude Code says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Own {
    /// The session has begun, or goes on.
    Session { id: String, model: String, tools: Vec<String> },
    /// The model is asked now.
    Asking,
    /// The model's provider failed and is asked again.
    Retry { status: Option<u16>, notice: String },
    /// The CLI wants an answer.
    Question { request_id: String, question: Question },
    /// The turn is over.
    Ended(Verdict),
}

/// What the CLI asks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Question {
    /// Its own question, about a tool that it does not allow by itself.
    MayUse { tool: String, input: Value },
    /// Our hook's question, about any tool.
    BeforeUse { tool: String, input: Value },
    /// Something that nobody here can answer.
    Unknown,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// With this message.
    Message(String),
    /// The model was asked as often as it may be.
    TooManyTurns,
    /// In these words.
    Failed(String),
}

/// Reads the lines of one turn.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The message that is being streamed.
    message_id: String,
    /// Messages whose text, and whose reasoning, came in pieces.
    text_streamed: BTreeSet<String>,
    reasoning_streamed: BTreeSet<String>,
    /// Calls of the caller's own tools that have not returned.
    bridged: BTreeSet<String>,
}

impl Decoder {
    /// Whether a tool of the caller's runs, of which nothing is told here.
    pub(super) fn awaits_the_caller(&self) -> bool {
        !self.bridged.is_empty()
    }

    /// What one line says. A line that is no JSON, or none that is known, says
    /// nothing.
    pub(super) fn decode(&mut self, line: &str) -> Vec<Heard> {
        let Ok(line) = serde_json::from_str::<Line>(line) else { return Vec::new() };
        match line {
            Line::System(system) => told_by_system(system),
            Line::StreamEvent { event, parent_tool_use_id: None } => {
                self.hear_piece(event).into_iter().collect()
            }
            Line::Assistant { message, parent_tool_use_id: None } => self.hear_blocks(message),
            Line::User { message, parent_tool_use_id: None } => {
                let blocks = serde_json::from_value::<Vec<Block>>(message.content);
                let blocks = blocks.unwrap_or_default().into_iter();
                blocks.filter_map(|block| self.hear_result(block)).collect()
            }
            Line::Result(result) => vec![Heard::Own(Own::Ended(verdict(result)))],
            Line::ControlRequest { request_id, request } => {
                vec![Heard::Own(Own::Question { request_id, question: question(request) })]
            }
            // All that we ask is to be heard before tools are used. Without
            // that the policy would hold for nothing.
            Line::ControlResponse { response: ControlResponse::Error { error } } => {
                vec![Heard::Own(Own::Ended(Verdict::Failed(format!(
                    "claude refused its set-up: {error}"
                ))))]
            }
            Line::StreamEvent { .. }
            | Line::Assistant { .. }
            | Line::User { .. }
            | Line::ControlResponse { .. }
            | Line::Other => Vec::new(),
        }
    }

    fn hear_piece(&mut self, event: StreamEvent) -> Option<Heard> {
        match event {
            StreamEvent::MessageStart { message } => {
                self.message_id = known_as(&message.id);
                None
            }
            StreamEvent::ContentBlockDelta { delta: Delta::Text { text } } => {
                self.text_streamed.insert(self.message_id.clone());
                piece(text, |delta| Heard::Text { message_id: self.message_id.clone(), delta })
            }
            StreamEvent::ContentBlockDelta { delta: Delta::Thinking { thinking } } => {
                self.reasoning_streamed.insert(self.message_id.clone());
                piece(thinking, |delta| Heard::Reasoning {
                    message_id: self.message_id.clone(),
                    delta,
                })
            }
            StreamEvent::ContentBlockDelta { delta: Delta::Other } | StreamEvent::Other => None,
        }
    }

    fn hear_blocks(&mut self, message: Assistant) -> Vec<Heard> {
        // The end of the turn says the same.
        if message.model == SYNTHETIC {
            return Vec::new();
        }
        let Assistant { id, content, .. } = message;
        let message_id = known_as(&id);
        let heard = content.into_iter().filter_map(|block| match block {
            Block::Text { text } if !self.text_streamed.contains(&message_id) => {
                piece(text, |delta| Heard::Text { message_id: message_id.clone(), delta })
            }
            Block::Thinking { thinking } if !self.reasoning_streamed.contains(&message_id) => {
                piece(thinking, |delta| Heard::Reasoning { message_id: message_id.clone(), delta })
            }
            Block::ToolUse { id, name, .. } if is_bridged(&name) => {
                self.bridged.insert(id);
                None
            }
            Block::ToolUse { id, name, input } => {
                Some(Heard::CallStarted { id, name, args: input })
            }
            Block::Text { .. }
            | Block::Thinking { .. }
            | Block::ToolResult { .. }
            | Block::Other => None,
        });
        heard.collect()
    }

    fn hear_result(&mut self, block: Block) -> Option<Heard> {
        match block {
            Block::ToolResult { tool_use_id, content, is_error } => {
                self.bridged.remove(&tool_use_id);
                let outcome = if is_error {
                    Outcome::Failed { error: error_text(&content), result: None }
                } else {
                    let result = Value::String(text_of(&content));
                    Outcome::Succeeded { result, truncated: false }
                };
                Some(Heard::CallEnded { id: tool_use_id, outcome })
            }
            Block::Text { .. } | Block::Thinking { .. } | Block::ToolUse { .. } | Block::Other => {
                None
            }
        }
    }
}

fn told_by_system(system: System) -> Vec<Heard> {
    match system {
        System::Init { session_id, model, tools, mcp_servers } => {
            let lost = mcp_servers.into_iter().filter(|server| server.status == "failed");
            let warnings = lost.map(|server| {
                let message = format!("MCP server `{}` is not available", server.name);
                Heard::Log { level: Level::Warn, message }
            });
            [Heard::Own(Own::Session { id: session_id, model, tools })]
                .into_iter()
                .chain(warnings)
                .collect()
        }
        System::Status { status } if status.as_deref() == Some("requesting") => {
            vec![Heard::Own(Own::Asking)]
        }
        System::ApiRetry { attempt, max_retries, error_status, error } => {
            let why = match (error_status, error) {
                (Some(status), _) => format!("answered {status}"),
                (None, Some(error)) => format!("failed: {error}"),
                (None, None) => "failed".to_owned(),
            };
            let notice =
                format!("the provider {why}; asking again, {attempt} of {max_retries} times");
            vec![Heard::Own(Own::Retry { status: error_status, notice })]
        }
        System::Status { .. } | System::Other => Vec::new(),
    }
}

/// The id of a message, as it fits into the log: providers choose any.
fn known_as(id: &str) -> String {
    let plain = |letter: &char| letter.is_ascii_graphic() && !['"', '\\'].contains(letter);
    let known: String = id.chars().filter(plain).take(MESSAGE_ID_LIMIT).collect();
    if known.is_empty() { "msg".to_owned() } else { known }
}

/// Pieces of nothing are not worth an event.
fn piece(text: String, heard: impl FnOnce(String) -> Heard) -> Option<Heard> {
    (!text.is_empty()).then(|| heard(text))
}

/// What a tool returned, as the model reads it; what is no text is only named.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<String> = blocks.iter().map(block_text).collect();
            texts.join("\n")
        }
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => content.to_string(),
    }
}

fn block_text(block: &Value) -> String {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    match (field("text"), field("type")) {
        (Some(text), _) => text.to_owned(),
        (None, Some(kind)) => format!("[{kind}]"),
        (None, None) => block.to_string(),
    }
}

/// The CLI puts its own errors into a tag that only the model needs.
fn error_text(content: &Value) -> String {
    let text = text_of(content);
    let inner = text.trim().strip_prefix("<tool_use_error>");
    let inner = inner.and_then(|inner| inner.strip_suffix("</tool_use_error>"));
    inner.map_or_else(|| text.clone(), str::to_owned)
}

fn question(request: ControlRequest) -> Question {
    match request {
        ControlRequest::CanUseTool { tool_name, input } => {
            Question::MayUse { tool: tool_name, input }
        }
        ControlRequest::HookCallback { input } => {
            Question::BeforeUse { tool: input.tool_name, input: input.tool_input }
        }
        ControlRequest::Other => Question::Unknown,
    }
}

fn verdict(result: TurnResult) -> Verdict {
    let TurnResult { subtype, is_error, result, errors } = result;
    if subtype == "error_max_turns" {
        return Verdict::TooManyTurns;
    }
    if subtype == "success" && !is_error {
        return Verdict::Message(result.unwrap_or_default());
    }
    let words = result.filter(|words| !words.is_empty()).unwrap_or_else(|| errors.join("\n"));
    Verdict::Failed(if words.is_empty() { subtype } else { words })
}

#[cfg(test)]
mod tests;
