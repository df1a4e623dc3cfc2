//! Agents: who can be asked, what they are told, and what they have.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use utoipa::{
    ToSchema,
    openapi::schema::{ObjectBuilder, SchemaType, Type},
};
use wire::agent::Harness;
use wire::workspace::{ResourceId, ResourceKind};

use super::{Checked, Resource, check_count, check_name, check_text, crud};
use crate::{member::Owner, problem::Problem, skills, state::Workspace};

/// Largest system prompt.
const PROMPT: usize = 256 << 10;
/// Most skills, and most MCP servers, of one agent.
const ATTACHED: usize = 50;
/// Longest name of a template.
const TEMPLATE: usize = 200;
/// Most rounds of tool calls.
const ROUNDS: u32 = 100;

/// An agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Agent {
    /// What the model is told first.
    pub(crate) system_prompt: String,
    /// The model that thinks; the workspace's default one when null.
    pub(crate) model_id: Option<String>,
    /// The environment its sandboxes have.
    pub(crate) environment_id: Option<String>,
    /// Most rounds of tool calls before it gives up.
    pub(crate) max_rounds: u32,
    /// Its skills, built-in ones by their names.
    pub(crate) skill_ids: Vec<String>,
    /// Its MCP servers.
    pub(crate) mcp_server_ids: Vec<String>,
    /// The template of its sandboxes; the runner's default one when null.
    pub(crate) template: Option<String>,
    /// What runs its loop; our own loop when null.
    #[serde(default)]
    #[schema(schema_with = harness)]
    pub(crate) harness: Option<Harness>,
}

/// An agent as it is sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewAgent {
    /// Its name.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// What the model is told first.
    system_prompt: String,
    /// The model that thinks.
    #[serde(default)]
    model_id: Option<String>,
    /// The environment its sandboxes have.
    #[serde(default)]
    environment_id: Option<String>,
    /// Most rounds of tool calls before it gives up.
    #[serde(default = "usual_rounds")]
    #[schema(minimum = 1, maximum = 100, default = 10)]
    max_rounds: u32,
    /// Its skills, built-in ones by their names.
    #[serde(default)]
    #[schema(max_items = 50)]
    skill_ids: Vec<String>,
    /// Its MCP servers.
    #[serde(default)]
    #[schema(max_items = 50)]
    mcp_server_ids: Vec<String>,
    /// The template of its sandboxes.
    #[serde(default)]
    template: Option<String>,
    /// What runs its loop; our own loop when null.
    #[serde(default)]
    #[schema(schema_with = harness)]
    harness: Option<Harness>,
}

crud!(
    Agent,
    NewAgent,
    Owner,
    "/api/agents",
    "agents",
    "an agent",
    "agents",
    create_agent,
    list_agents,
    get_agent,
    replace_agent,
    delete_agent
);

impl Agent {
    /// Whether it names the resource with this id.
    pub(crate) fn has(&self, id: &str) -> bool {
        let single = [&self.model_id, &self.environment_id];
        single
            .into_iter()
            .flatten()
            .chain(&self.skill_ids)
            .chain(&self.mcp_server_ids)
            .any(|it| it == id)
    }
}

impl Resource for Agent {
    const KIND: ResourceKind = ResourceKind::Agent;
    type Input = NewAgent;
    type Secrets = ();

    fn check(input: NewAgent, (): ()) -> Result<Checked<Agent>, Problem> {
        check_name("name", &input.name)?;
        check_text("systemPrompt", &input.system_prompt, PROMPT)?;
        if !(1..=ROUNDS).contains(&input.max_rounds) {
            return Err(Problem::bad_field("maxRounds", format!("is 1 to {ROUNDS}")));
        }
        check_attached("skillIds", &input.skill_ids)?;
        check_attached("mcpServerIds", &input.mcp_server_ids)?;
        if let Some(template) = &input.template {
            check_text("template", template, TEMPLATE)?;
            if template.is_empty() {
                return Err(Problem::bad_field("template", "is empty; leave it out instead"));
            }
        }
        let body = Agent {
            system_prompt: input.system_prompt,
            model_id: input.model_id,
            environment_id: input.environment_id,
            max_rounds: input.max_rounds,
            skill_ids: input.skill_ids,
            mcp_server_ids: input.mcp_server_ids,
            template: input.template,
            harness: input.harness,
        };
        Ok(Checked { name: input.name, body, secrets: () })
    }

    async fn check_references(&self, workspace: &Workspace, owner: &str) -> Result<(), Problem> {
        for (field, kind, id) in self.references() {
            let built_in = kind == ResourceKind::Skill && skills::is_built_in(id);
            if built_in || exists(workspace, owner, kind, id).await? {
                continue;
            }
            let message = format!("there is no {} `{id}`", kind.name());
            return Err(Problem::bad_field(field, message));
        }
        Ok(())
    }
}

impl Agent {
    /// Everything it names, and in which field.
    fn references(&self) -> Vec<(String, ResourceKind, &str)> {
        let mut all = Vec::new();
        if let Some(id) = &self.model_id {
            all.push(("modelId".to_owned(), ResourceKind::Model, id.as_str()));
        }
        if let Some(id) = &self.environment_id {
            all.push(("environmentId".to_owned(), ResourceKind::Environment, id.as_str()));
        }
        for (place, id) in self.skill_ids.iter().enumerate() {
            all.push((format!("skillIds[{place}]"), ResourceKind::Skill, id.as_str()));
        }
        for (place, id) in self.mcp_server_ids.iter().enumerate() {
            all.push((format!("mcpServerIds[{place}]"), ResourceKind::McpServer, id.as_str()));
        }
        all
    }
}

fn usual_rounds() -> u32 {
    10
}

/// A list of ids, none of them twice.
fn check_attached(field: &str, ids: &[String]) -> Result<(), Problem> {
    check_count(field, ids.len(), ATTACHED)?;
    let mut seen = HashSet::new();
    match ids.iter().position(|id| !seen.insert(id)) {
        Some(place) => Err(Problem::bad_field(format!("{field}[{place}]"), "is there twice")),
        None => Ok(()),
    }
}

async fn exists(
    workspace: &Workspace,
    owner: &str,
    kind: ResourceKind,
    id: &str,
) -> Result<bool, Problem> {
    let Ok(id) = ResourceId::parse(kind, id) else { return Ok(false) };
    Ok(workspace.store.resource(owner, kind, &id).await?.is_some())
}

/// A name, or null.
fn harness() -> ObjectBuilder {
    let types = SchemaType::from_iter([Type::String, Type::Null]);
    let names = Harness::ALL.map(|harness| Some(harness.name()));
    ObjectBuilder::new().schema_type(types).enum_values(Some(names.into_iter().chain([None])))
}
