//! What the agent inside a sandbox is told: the one document on its standard
//! input, and the workspace's answers to `GET env` and `GET config`.
//!
//! The bootstrap comes from our own runner and is read strictly. The answers
//! come from anybody's workspace: fields we do not know are ignored, and a
//! field that says `null` counts as one that is missing.

mod config;
mod front_matter;
mod harness;
mod policy;
mod skill;
mod task;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::run::RunId;
use crate::{Secret, exposed};

pub use config::{
    AgentConfig, AssetsRef, Caller, Content, HarnessRef, McpServer, Message, ModelConfig, Part,
    Provider, Role, ScriptedCall, ScriptedRound, WorkspaceRef,
};
pub use front_matter::name_and_description;
pub use harness::Harness;
pub use policy::{Approval, Capabilities, CommandRules, Policy, Ruling};
pub use skill::{BadSkill, SkillId, SkillRef, SkillVersion};
pub use task::{CodeMode, FileEvents, HostTool, ToolBridge};

/// Everything an agent is given, as one JSON document on its standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bootstrap {
    /// The run it works for.
    pub run_id: RunId,
    /// The host link's address as seen inside, without a slash at its end.
    pub link: String,
    /// What the user asks.
    pub prompt: String,
    /// The conversation of the dispatch, when it has one.
    #[serde(default)]
    pub chat_id: Option<String>,
    /// Where environment and configuration come from.
    pub source: Source,
    /// The directory to work in.
    pub workspace_dir: String,
    /// The harness that runs the loop, if the dispatch says so; else the
    /// configuration does.
    #[serde(default)]
    pub harness: Option<Harness>,
    /// The harness's own session that goes on.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Where the caller's tools are served.
    pub bridge: ToolBridge,
    /// The tools of the dispatch; the configuration may name more.
    #[serde(default)]
    pub tools: Vec<HostTool>,
    /// What the agent may do on its own; everything, if nobody says.
    #[serde(default)]
    pub policy: Option<Policy>,
    /// Whether changes of files are told.
    #[serde(default)]
    pub file_events: FileEvents,
    /// Whether the model may write programs that call tools.
    #[serde(default)]
    pub code_mode: CodeMode,
    /// What the agent may fetch, send and wait for.
    pub limits: AgentLimits,
}

/// Where environment and configuration come from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// From the workspace, each against a one-time token.
    Callbacks {
        /// For `GET env`.
        #[serde(with = "exposed")]
        otp_setup: Secret<String>,
        /// For `GET config`.
        #[serde(with = "exposed")]
        otp_run: Secret<String>,
        /// For `POST results`; without it nothing is written back.
        #[serde(default, with = "maybe_exposed")]
        otp_upload: Option<Secret<String>>,
    },
    /// From the dispatch itself.
    Inline {
        /// As `GET env` would answer.
        env: AgentEnv,
        /// As `GET config` would answer.
        config: Box<AgentConfig>,
    },
}

/// What the agent may fetch, send and wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLimits {
    /// Longest wait for a byte of the model.
    pub model_timeout_ms: u64,
    /// Longest time of one callback, its body included.
    pub callback_timeout_ms: u64,
    /// Largest answer of `GET env` and `GET config`.
    pub config_bytes: u64,
    /// Largest skill, packed and unpacked.
    pub skill_bytes: u64,
    /// Largest bag, packed and unpacked.
    pub bag_bytes: u64,
    /// Most files that are written back.
    pub upload_files: u64,
    /// Largest file that is written back.
    pub upload_file_bytes: u64,
    /// Most bytes that are written back.
    pub upload_total_bytes: u64,
    /// Largest tool result that is kept whole.
    pub tool_result_bytes: u64,
    /// Longest time of one tool call.
    pub tool_timeout_ms: u64,
}

impl AgentLimits {
    /// The limits that hold unless an operator says otherwise.
    pub const STANDARD: AgentLimits = AgentLimits {
        model_timeout_ms: 60_000,
        callback_timeout_ms: 30_000,
        config_bytes: 8 << 20,
        skill_bytes: 50 << 20,
        bag_bytes: 512 << 20,
        upload_files: 20,
        upload_file_bytes: 25 << 20,
        upload_total_bytes: 50 << 20,
        tool_result_bytes: 1 << 20,
        tool_timeout_ms: 600_000,
    };
}

/// The answer to `GET env`: a named environment.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEnv {
    /// Variables for tools, recipes and the setup script.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Shell script that runs before the first model call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_script: Option<String>,
}

/// Names only: values of an environment are often secrets.
impl fmt::Debug for AgentEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentEnv")
            .field("variables", &self.variables.keys())
            .field("setup_script", &self.setup_script.as_ref().map(String::len))
            .finish()
    }
}

/// Reads `null` as the empty value: workspaces in other languages write it.
fn null_is_empty<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A secret that may be missing, written in the open like [`exposed`].
mod maybe_exposed {
    use super::{Deserialize, Deserializer, Secret, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        secret: &Option<Secret<String>>,
        into: S,
    ) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(into)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Secret<String>>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Secret::new))
    }
}

#[cfg(test)]
mod tests;
