//! What Claude Code prints, one JSON object a line: `--output-format stream-json`
//! with partial messages. Only what is used is named; fields come and go between
//! its versions, so that whatever can be missing may be.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One line.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    System(System),
    /// A piece of an answer, as the model's provider streams it.
    StreamEvent {
        event: StreamEvent,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
    },
    /// A whole block of an answer.
    Assistant {
        message: Assistant,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
    },
    /// What tools returned.
    User {
        message: User,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
    },
    /// The end of the turn.
    Result(TurnResult),
    /// The CLI asks us.
    ControlRequest {
        request_id: String,
        request: ControlRequest,
    },
    /// The CLI answers us.
    ControlResponse {
        response: ControlResponse,
    },
    #[serde(other)]
    Other,
}

/// A word about the session itself.
#[derive(Debug, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum System {
    Init {
        session_id: String,
        #[serde(default)]
        model: String,
        #[serde(default)]
        tools: Vec<String>,
        #[serde(default)]
        mcp_servers: Vec<McpStatus>,
    },
    Status {
        #[serde(default)]
        status: Option<String>,
    },
    ApiRetry {
        #[serde(default)]
        attempt: u64,
        #[serde(default)]
        max_retries: u64,
        #[serde(default)]
        error_status: Option<u16>,
        #[serde(default)]
        error: Option<String>,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct McpStatus {
    pub(super) name: String,
    pub(super) status: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamEvent {
    MessageStart {
        message: MessageId,
    },
    ContentBlockDelta {
        delta: Delta,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageId {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Assistant {
    pub(super) id: String,
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) content: Vec<Block>,
}

#[derive(Debug, Deserialize)]
pub(super) struct User {
    /// A text of the user's, or blocks, of which results of tools are some.
    pub(super) content: Value,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Value,
        #[serde(default, deserialize_with = "null_is_false")]
        is_error: bool,
    },
    #[serde(other)]
    Other,
}

/// `subtype` says `success` of some failures too: `is_error` is what counts.
#[derive(Debug, Deserialize)]
pub(super) struct TurnResult {
    #[serde(default)]
    pub(super) subtype: String,
    #[serde(default, deserialize_with = "null_is_false")]
    pub(super) is_error: bool,
    #[serde(default)]
    pub(super) result: Option<String>,
    #[serde(default)]
    pub(super) errors: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum ControlRequest {
    /// May this tool be used? Only what the CLI does not allow by itself.
    CanUseTool {
        tool_name: String,
        #[serde(default)]
        input: Value,
    },
    /// Our own hook, before any tool is used.
    HookCallback { input: HookInput },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct HookInput {
    #[serde(default)]
    pub(super) tool_name: String,
    #[serde(default)]
    pub(super) tool_input: Value,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum ControlResponse {
    Error {
        #[serde(default)]
        error: String,
    },
    #[serde(other)]
    Other,
}

fn null_is_false<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::<bool>::deserialize(from)?.unwrap_or_default())
}
