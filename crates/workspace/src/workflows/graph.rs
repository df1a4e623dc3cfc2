//! A workflow as its editor writes it, as it is stored, and as it is sent back.
//!
//! Nothing here is checked beyond its shape; `check` turns a graph into a plan
//! that can be carried out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A directed graph of blocks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkflowGraph)]
pub(crate) struct Graph {
    /// What its blocks find beside their inputs.
    #[serde(default)]
    pub(crate) environment: Environment,
    /// What is done.
    pub(crate) blocks: Vec<Block>,
    /// What comes after what.
    #[serde(default)]
    pub(crate) edges: Vec<Edge>,
}

/// The environment of a workflow. It is kept and shown in the open: secrets
/// belong into a named environment of an agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkflowEnvironment)]
#[serde(deny_unknown_fields)]
pub(crate) struct Environment {
    /// `SANDBOX_URL` is the runner of agents blocks that name none.
    #[serde(default)]
    pub(crate) variables: BTreeMap<String, String>,
}

/// One thing that is done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkflowBlock)]
#[serde(deny_unknown_fields)]
pub(crate) struct Block {
    /// 1 to 40 lowercase letters, digits and underscores; references name it.
    pub(crate) id: String,
    /// What kind of thing.
    #[serde(rename = "type")]
    pub(crate) kind: BlockKind,
    /// With what. Strings may hold references: `{{block.output}}`.
    #[serde(default)]
    pub(crate) inputs: Map<String, Value>,
}

/// The kinds of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkflowBlockType)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BlockKind {
    /// Where an execution begins: its outputs are the execution's input.
    Start,
    /// Puts an agent into a sandbox.
    Agents,
    /// Keeps files in the workspace.
    SaveFile,
    /// Says what the execution answers.
    Respond,
}

/// `to` is carried out after `from`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkflowEdge)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edge {
    /// The id of a block.
    pub(crate) from: String,
    /// The id of another.
    pub(crate) to: String,
}

impl Graph {
    /// Every place that says which runner to use, and what it says.
    pub(crate) fn runners(&self) -> BTreeMap<String, String> {
        let blocks = self.blocks.iter().filter_map(|block| {
            let url = block.inputs.get("sandboxUrl")?;
            Some((format!("blocks.{}.inputs.sandboxUrl", block.id), url.to_string()))
        });
        let variable = self.environment.variables.get(super::SANDBOX_URL);
        let variable =
            variable.map(|url| ("environment.variables.SANDBOX_URL".into(), url.clone()));
        blocks.chain(variable).collect()
    }
}

impl BlockKind {
    /// The name in a graph.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BlockKind::Start => "start",
            BlockKind::Agents => "agents",
            BlockKind::SaveFile => "save_file",
            BlockKind::Respond => "respond",
        }
    }

    /// Names that a reference to such a block may begin with; `None` where they
    /// are known only when it is carried out.
    pub(crate) fn outputs(self) -> Option<&'static [&'static str]> {
        match self {
            BlockKind::Start => None,
            BlockKind::Agents => Some(&["response", "files"]),
            BlockKind::SaveFile => Some(&["files"]),
            BlockKind::Respond => Some(&[]),
        }
    }
}

/// Whether the text can be the id of a block.
pub(crate) fn is_block_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (1..=40).contains(&text.len()) && text.bytes().all(plain)
}
