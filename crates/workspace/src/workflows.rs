//! Workflows: small graphs of blocks, stored as JSON and carried out on request.
//!
//! ```text
//! graph ── check ──► plan ── engine ──► journal ──► whoever follows
//! ```
//!
//! `start` takes the input, `agents` puts an agent into a sandbox, `save_file`
//! keeps files, `respond` answers. What flows between them is in `values`.

mod blocks;
mod check;
mod definitions;
mod engine;
mod executions;
mod follow;
mod graph;
mod journal;
mod lines;
mod live;
mod recovery;
mod values;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use wire::{Code, workspace::ResourceKind};

use crate::{
    problem::Problem,
    resources::{Checked, Resource, check_name},
    state::Workspace,
};

use graph::{Block, Edge, Environment, Graph};

pub(crate) use live::Executions;

/// The variable that names a runner, in a workflow's environment.
const SANDBOX_URL: &str = "SANDBOX_URL";
/// Largest graph, as JSON: it is kept with every execution.
const LARGEST: usize = 1 << 20;

/// A workflow as its editor sends it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NewWorkflow {
    /// Its name, unique in the workspace.
    name: String,
    /// What its blocks find beside their inputs.
    #[serde(default)]
    environment: Environment,
    /// What is done.
    blocks: Vec<Block>,
    /// What comes after what.
    #[serde(default)]
    edges: Vec<Edge>,
}

impl Resource for Graph {
    const KIND: ResourceKind = ResourceKind::Workflow;
    type Input = NewWorkflow;
    type Secrets = ();

    fn check(input: NewWorkflow, (): ()) -> Result<Checked<Graph>, Problem> {
        let NewWorkflow { name, environment, blocks, edges } = input;
        check_name("name", &name)?;
        let graph = Graph { environment, blocks, edges };
        check::check(&graph)?;
        if serde_json::to_string(&graph).map_or(0, |json| json.len()) > LARGEST {
            let message = format!("a workflow is at most {LARGEST} bytes of JSON");
            return Err(Problem::bad_field("blocks", message));
        }
        Ok(Checked { name, body: graph, secrets: () })
    }

    /// A runner is given tokens that open an agent's variables and its model's
    /// key, so only somebody with an API key says which one. A reference would
    /// leave that to what a block before it says.
    fn check_from_sandbox(&self, before: Option<&Graph>) -> Result<(), Problem> {
        let known = before.map(Graph::runners).unwrap_or_default();
        let unknown =
            |(place, url): &(String, String)| known.get(place) != Some(url) || url.contains("{{");
        match self.runners().into_iter().find(unknown) {
            None => Ok(()),
            Some((place, _)) => {
                let message = "a sandbox does not say where agents run";
                Err(Problem::new(Code::PermissionDenied, message).in_field(place))
            }
        }
    }
}

/// Workflows and their executions.
pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new().merge(definitions::routes()).merge(executions::routes())
}
