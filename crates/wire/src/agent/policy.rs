//! What an agent may do on its own, what it has to ask for, and what it may not.
//!
//! A policy guides a model that means well; walls are for one that does not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::null_is_empty;

/// The rules of one run. None at all allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// By the text of a command.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub commands: CommandRules,
    /// By what is done.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub capabilities: Capabilities,
    /// What holds for everything that no rule names.
    #[serde(default)]
    pub default: Ruling,
    /// What people answered to `approval-requested`, by its `approvalId`.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub approvals: BTreeMap<String, Approval>,
}

/// Patterns of whole commands, in which `*` stands for anything. A denial wins
/// over a question, and a question over an allowance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRules {
    /// These run.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub allow: Vec<String>,
    /// These run once somebody has agreed.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub ask: Vec<String>,
    /// These do not run.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub deny: Vec<String>,
}

/// What a tool does, whatever its name; what is not said falls to the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capabilities {
    /// Files are written by the harness's own tools.
    #[serde(default)]
    pub file_write: Option<Ruling>,
    /// The web is read by the harness's own tools.
    #[serde(default)]
    pub network: Option<Ruling>,
}

/// What happens to an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ruling {
    /// It is done.
    Allow,
    /// It is done once somebody has agreed.
    #[default]
    Ask,
    /// It is not done.
    Deny,
}

/// What somebody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Yes.
    Allow,
    /// No.
    Deny,
}
