//! `GET {agent_url}/config` as the API document shows it: what it answers is
//! `wire::agent::AgentConfig`, and `wire` knows nothing of documents.

use chrono::{DateTime, Utc};
use utoipa::ToSchema;

/// The definition of an agent, or of one turn of the Assistant.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes `wire::agent::AgentConfig`")]
pub(super) struct AgentConfiguration {
    /// The session of the dispatch.
    session_id: String,
    /// Who dispatched: `assistant` for a turn, `agents` for a block.
    #[schema(pattern = "^(assistant|agents)$")]
    caller: String,
    /// What the model is told first.
    system_prompt: String,
    model: ConfiguredModel,
    /// Most rounds of tool calls before the run gives up.
    max_rounds: u32,
    /// What was said before this prompt, oldest first, each with `role` and `content`.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<serde_json::Value>,
    /// The conversation of a turn; a block has none.
    #[schema(nullable = false)]
    chat_id: Option<String>,
    /// Skill bundles to fetch.
    skills: Vec<ConfiguredSkill>,
    /// MCP servers to use.
    #[schema(value_type = Vec<Object>)]
    mcp_servers: Vec<serde_json::Value>,
    /// Tools of the caller's own; there are none yet.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<serde_json::Value>,
    /// The bag, when it holds anything.
    #[schema(nullable = false)]
    assets: Option<ConfiguredAssets>,
    /// What runs the loop: `kind`, and `session_id` of one that is resumed.
    #[schema(value_type = Object)]
    harness: serde_json::Value,
    workspace: ConfiguredWorkspace,
    /// Longest time of the run, in seconds.
    max_runtime_sec: u64,
}

/// Which model thinks. Runners keep its address and key out of the sandbox.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes `wire::agent::ModelConfig`")]
struct ConfiguredModel {
    #[schema(pattern = "^(anthropic|openai|openai-responses|scripted)$")]
    provider: String,
    /// What its provider calls it.
    name: String,
    #[schema(nullable = false)]
    base_url: Option<String>,
    #[schema(nullable = false)]
    api_key: Option<String>,
    #[schema(nullable = false)]
    max_tokens: Option<u32>,
    #[schema(nullable = false)]
    temperature: Option<f64>,
    /// What the scripted provider answers, round by round.
    #[schema(value_type = Vec<Object>, required = false)]
    script: Vec<serde_json::Value>,
}

/// A skill bundle to fetch.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes `wire::agent::SkillRef`")]
struct ConfiguredSkill {
    id: String,
    name: String,
    /// SHA-256 of the zip.
    version: String,
    /// Where the zip is, signed.
    url: String,
}

/// The bag, to fetch as one zip.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes `wire::agent::AssetsRef`")]
struct ConfiguredAssets {
    /// Where the zip is, signed.
    url: String,
    /// Until when.
    expires_at: DateTime<Utc>,
    /// What is in it: `id`, `name`, `mimeType`, `size` and `sha256` of each file.
    #[schema(value_type = Vec<Object>)]
    files: Vec<serde_json::Value>,
}

/// The workspace's own API.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes `wire::agent::WorkspaceRef`")]
struct ConfiguredWorkspace {
    url: String,
    /// What opens it until the run ends.
    bearer: String,
}
