//! The answer to `GET config`: who the agent is and what it has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HostTool, SkillRef, maybe_exposed, null_is_empty};
use crate::{Secret, exposed};

/// The definition of an agent, or of one turn of the Assistant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentConfig {
    /// The workspace's name for this dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Who dispatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller>,
    /// What the model is told first.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub system_prompt: String,
    /// Which model thinks. None at all is the scripted one.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub model: ModelConfig,
    /// Most rounds of tool calls before the run gives up.
    #[serde(default = "AgentConfig::standard_max_rounds")]
    pub max_rounds: u32,
    /// What was said before this prompt, oldest first.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub messages: Vec<Message>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    /// Attached skill bundles.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub skills: Vec<SkillRef>,
    /// Attached MCP servers.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub mcp_servers: Vec<McpServer>,
    /// The caller's own tools. Where they are executed stays outside.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<HostTool>,
    /// The bag, when it holds anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assets: Option<AssetsRef>,
    /// What runs the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<HarnessRef>,
    /// The workspace's own API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceRef>,
    /// The run's cap, as the workspace sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime_sec: Option<u64>,
}

impl AgentConfig {
    fn standard_max_rounds() -> u32 {
        10
    }
}

/// The two callers of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Caller {
    /// A turn of the Assistant; it always has a conversation.
    Assistant,
    /// An Agents block; it never has one.
    Agents,
}

/// Which model thinks, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelConfig {
    /// The wire format it speaks.
    pub provider: Provider,
    /// The model's name; the scripted one needs none.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub name: String,
    /// Its address. Never enters a sandbox: the host link knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Its key. Never enters a sandbox: the host link adds it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "maybe_exposed")]
    pub api_key: Option<Secret<String>>,
    /// Most tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How far it may stray.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// What the scripted provider answers, round by round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Vec<ScriptedRound>>,
}

/// Without a model there is the scripted one, which needs no key.
impl Default for ModelConfig {
    fn default() -> ModelConfig {
        ModelConfig {
            provider: Provider::Scripted,
            name: String::new(),
            base_url: None,
            api_key: None,
            max_tokens: None,
            temperature: None,
            script: None,
        }
    }
}

/// The wire formats of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, and whoever speaks them.
    Openai,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// No model at all: answers from a script.
    Scripted,
}

impl Provider {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::Openai => "openai",
            Provider::OpenaiResponses => "openai-responses",
            Provider::Scripted => "scripted",
        }
    }
}

/// One answer of the scripted provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptedRound {
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The tools it calls.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ScriptedCall>,
    /// How long it waits before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}

/// A tool call of the scripted provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Value,
}

/// Something that was said before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What.
    pub content: Content,
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// What was said: a text, or a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// In one piece.
    Text(String),
    /// In parts.
    Parts(Vec<Part>),
}

/// One part of what was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// A tool that the model called.
    ToolCall {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        #[serde(default)]
        args: Value,
    },
    /// What a tool returned. It is told to the model, so a user's message has it.
    ToolResult {
        /// The call.
        id: String,
        /// What it returned, as text.
        content: String,
    },
}

impl Content {
    /// The text of it in one piece; tools are left out.
    pub fn to_text(&self) -> String {
        match self {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => {
                let texts: Vec<&str> = parts
                    .iter()
                    .filter_map(|part| match part {
                        Part::Text { text } => Some(text.as_str()),
                        Part::ToolCall { .. } | Part::ToolResult { .. } => None,
                    })
                    .collect();
                texts.join("\n")
            }
        }
    }
}

/// An MCP server that is attached to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "lowercase")]
pub enum McpServer {
    /// A program inside the sandbox.
    Stdio {
        /// Its name in the names of its tools.
        name: String,
        /// The program.
        command: String,
        /// Its arguments.
        #[serde(default, deserialize_with = "null_is_empty")]
        args: Vec<String>,
        /// Variables beside those of the named environment.
        #[serde(default, deserialize_with = "null_is_empty")]
        env: BTreeMap<String, String>,
    },
    /// A server elsewhere, by streamable HTTP.
    Http {
        /// Its name in the names of its tools.
        name: String,
        /// Its address; inside a sandbox one of the host link.
        url: String,
        /// Headers that the host link adds. They never enter a sandbox.
        #[serde(
            default,
            deserialize_with = "null_is_empty",
            skip_serializing_if = "BTreeMap::is_empty"
        )]
        headers: BTreeMap<String, String>,
    },
}

impl McpServer {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            McpServer::Stdio { name, .. } | McpServer::Http { name, .. } => name,
        }
    }
}

/// The bag as a zip. When its address ends is the host link's concern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssetsRef {
    /// Where the zip is.
    pub url: String,
}

/// What runs the loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessRef {
    /// Its name.
    pub kind: String,
    /// The session it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// The workspace's own API, for skills that call back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkspaceRef {
    /// Its address; inside a sandbox one of the host link.
    pub url: String,
    /// The `asbx_` bearer.
    #[serde(with = "exposed")]
    pub bearer: Secret<String>,
}
