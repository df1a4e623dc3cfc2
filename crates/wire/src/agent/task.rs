//! What a dispatch wants of an agent beside an answer to its prompt.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Secret, exposed};

/// A tool of the caller's, as the agent sees it. Where it is executed is the
/// host's to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostTool {
    /// What the model calls it.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    #[serde(default = "HostTool::any_object")]
    pub parameters: Value,
    /// Whether the caller executes it after the run, so that a call of it ends
    /// the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
}

impl HostTool {
    /// Most tools of one caller.
    pub const MOST: usize = 128;

    /// What a model reads of a call that the caller executes after this run.
    pub const DEFERRED: &str = "The caller executes this tool after this turn and brings the \
                                result with the next message. Do not call it again; end your \
                                turn now.";

    /// The schema of a tool that says nothing of its arguments.
    pub fn any_object() -> Value {
        serde_json::json!({"type": "object"})
    }

    /// Whether a tool may be called so: what every model provider takes.
    pub fn is_name(text: &str) -> bool {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        (1..=64).contains(&text.len()) && text.bytes().all(plain)
    }
}

/// Where the caller's tools are served, as MCP by streamable HTTP.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolBridge {
    /// The address on the host link.
    pub url: String,
    /// What every request has to bring. It is good for this run's tools alone.
    #[serde(with = "exposed")]
    pub bearer: Secret<String>,
}

/// Whether changes of files are told as they happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileEvents {
    /// They are not.
    Off,
    /// Each change is told.
    #[default]
    On,
    /// Each change is told, and what changed in the file.
    Diff,
}

/// Whether the model may write programs that call the caller's tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeMode {
    /// It may not.
    #[default]
    Off,
    /// There are tools that run TypeScript and Python.
    On,
}
