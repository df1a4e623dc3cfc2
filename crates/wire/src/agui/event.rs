//! The events that we emit, as JSON says them.
//!
//! At the top level stands only what version 1.0 knows, since clients strip the
//! rest with a warning; whatever else we have to say is in `metadata`, under the
//! name of whoever reads it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AguiEvent {
    /// What happened.
    #[serde(flatten)]
    pub kind: AguiKind,
    /// When, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timestamp: Option<u64>,
    /// What the protocol has no field for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub metadata: Option<Map<String, Value>>,
}

impl AguiEvent {
    /// The largest integer that a JavaScript client reads as it is; events with
    /// a larger one are refused by their schema.
    pub const MAX_INTEGER: u64 = (1 << 53) - 1;
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum AguiKind {
    /// A run began.
    RunStarted {
        /// The conversation.
        thread_id: String,
        /// The run, by its caller's name for it.
        run_id: String,
        /// The version of the protocol that is spoken.
        protocol_version: String,
    },
    /// A run ended well.
    RunFinished {
        /// The conversation.
        thread_id: String,
        /// The run.
        run_id: String,
        /// What came of it.
        result: Value,
        /// How it ended.
        outcome: RunOutcome,
        /// Tokens it took.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        usage: Vec<AguiUsage>,
    },
    /// A run did not end well.
    RunError {
        /// What happened.
        message: String,
        /// Why.
        code: String,
        /// Tokens it took.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        usage: Vec<AguiUsage>,
    },
    /// The assistant begins to speak.
    TextMessageStart {
        /// The message.
        message_id: String,
        /// Whose it is.
        role: AguiRole,
    },
    /// A piece of what it says.
    TextMessageContent {
        /// The message.
        message_id: String,
        /// The piece.
        delta: String,
    },
    /// The message is whole.
    TextMessageEnd {
        /// The message.
        message_id: String,
    },
    /// The model begins to think.
    ReasoningStart {
        /// The span.
        message_id: String,
    },
    /// A thought begins.
    ReasoningMessageStart {
        /// The message.
        message_id: String,
        /// Whose it is.
        role: AguiRole,
    },
    /// A piece of the thought.
    ReasoningMessageContent {
        /// The message.
        message_id: String,
        /// The piece.
        delta: String,
    },
    /// The thought is whole.
    ReasoningMessageEnd {
        /// The message.
        message_id: String,
    },
    /// The model is done thinking.
    ReasoningEnd {
        /// The span.
        message_id: String,
    },
    /// A tool is called.
    ToolCallStart {
        /// The call.
        tool_call_id: String,
        /// The tool.
        tool_call_name: String,
        /// The assistant's message that holds the call.
        parent_message_id: String,
    },
    /// A piece of the call's arguments.
    ToolCallArgs {
        /// The call.
        tool_call_id: String,
        /// The piece, of JSON.
        delta: String,
    },
    /// The arguments are whole.
    ToolCallEnd {
        /// The call.
        tool_call_id: String,
    },
    /// What a tool returned.
    ToolCallResult {
        /// The message that tells the model.
        message_id: String,
        /// The call.
        tool_call_id: String,
        /// What it returned, as text.
        content: String,
        /// Whose the message is.
        role: AguiRole,
    },
    /// Anything else, by name.
    Custom {
        /// What it is.
        name: String,
        /// What it says; `null` is something, too.
        value: Value,
    },
}

/// Whose a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AguiRole {
    /// The assistant's.
    Assistant,
    /// The model's, as it thinks.
    Reasoning,
    /// A tool's.
    Tool,
}

impl AguiRole {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            AguiRole::Assistant => "assistant",
            AguiRole::Reasoning => "reasoning",
            AguiRole::Tool => "tool",
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum RunOutcome {
    /// As it should.
    Success {
        /// Calls that the caller executes; the next run brings their results.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        pending_tool_call_ids: Vec<String>,
    },
}

/// Tokens that one model took. Totals, and parts of the totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AguiUsage {
    /// Whose model it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub provider: Option<String>,
    /// Which it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
    /// Every token it read, those of its provider's cache too.
    pub input_tokens: u64,
    /// Every token it wrote.
    pub output_tokens: u64,
    /// Both together.
    pub total_tokens: u64,
    /// Those of the input that came from the cache.
    pub cached_input_tokens: u64,
    /// Those of the input that were put into the cache.
    pub cache_write_input_tokens: u64,
}
