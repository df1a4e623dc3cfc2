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
}

impl HostTool {
    fn any_object() -> Value {
        serde_json::json!({"type": "object"})
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
