//! From an agent's id to all that its sandbox is told: every resource that it
//! names, looked up and opened at this moment. What an agent names may have
//! gone in the meantime; the error then says which field of which agent.

use store::ResourceRow;
use wire::{
    Code,
    agent::{AgentEnv, Harness, McpServer as ServerConfig, ModelConfig, SkillId},
    workspace::{ResourceId, ResourceKind},
};

use crate::{
    problem::Problem,
    resources::{self, Agent, Environment, McpServer, Model, Resource, Transport},
    skills::{self, BUILT_IN, Skill, SkillName},
    state::Workspace,
};

/// What the default Assistant is told first.
const ASSISTANT: &str = include_str!("resolve/assistant.md");
/// Most rounds of the default Assistant.
const ASSISTANT_ROUNDS: u32 = 10;
/// The model of agents that name none.
const DEFAULT_MODEL: &str = "default";

/// An agent and everything it names, opened. It holds secrets.
#[derive(Debug)]
pub(crate) struct ResolvedAgent {
    pub(crate) system_prompt: String,
    pub(crate) model: ModelConfig,
    pub(crate) max_rounds: u32,
    pub(crate) environment: AgentEnv,
    pub(crate) skills: Vec<SkillName>,
    pub(crate) mcp_servers: Vec<ServerConfig>,
    /// The template of its sandboxes; the runner's own choice when none.
    pub(crate) template: Option<String>,
    /// What runs its loop; our own loop when none.
    pub(crate) harness: Option<Harness>,
}

impl Workspace {
    /// An agent with everything it names; without an id, the Assistant.
    pub(crate) async fn resolve_agent(
        &self,
        workspace: &str,
        id: Option<&ResourceId>,
    ) -> Result<ResolvedAgent, Problem> {
        let (name, agent) = match id {
            None => ("Assistant".to_owned(), assistant()),
            Some(id) => {
                let (row, agent) = resources::load::<Agent>(self, workspace, id.as_str()).await?;
                (row.name, agent)
            }
        };
        let look = Look { workspace: self, owner: workspace, agent: &name };
        let model = match &agent.model_id {
            Some(id) => look.model(look.find::<Model>("modelId".to_owned(), id).await?)?,
            None => look.default_model().await?,
        };
        let environment = match &agent.environment_id {
            Some(id) => look.environment(id).await?,
            None => AgentEnv::default(),
        };
        let mut skills = Vec::new();
        for (place, id) in agent.skill_ids.iter().enumerate() {
            skills.push(look.skill(format!("skillIds[{place}]"), id).await?);
        }
        let mut mcp_servers = Vec::new();
        for (place, id) in agent.mcp_server_ids.iter().enumerate() {
            mcp_servers.push(look.mcp_server(format!("mcpServerIds[{place}]"), id).await?);
        }
        let Agent { system_prompt, max_rounds, template, harness, .. } = agent;
        Ok(ResolvedAgent {
            system_prompt,
            model,
            max_rounds,
            environment,
            skills,
            mcp_servers,
            template,
            harness,
        })
    }
}

/// Whose things are looked up, and for which agent.
struct Look<'a> {
    workspace: &'a Workspace,
    owner: &'a str,
    agent: &'a str,
}

impl Look<'_> {
    /// What the agent names in `field`.
    async fn find<R: Resource>(
        &self,
        field: String,
        id: &str,
    ) -> Result<(ResourceRow, R), Problem> {
        let kind = R::KIND;
        let row = match ResourceId::parse(kind, id) {
            Ok(id) => self.workspace.store.resource(self.owner, kind, &id).await?,
            Err(_) => None,
        };
        let row = row.ok_or_else(|| {
            let message =
                format!("agent `{}` names {} `{id}`, which is gone", self.agent, kind.name());
            Problem::new(Code::FailedPrecondition, message).in_field(field)
        })?;
        resources::from_row(row)
    }

    fn model(&self, (row, model): (ResourceRow, Model)) -> Result<ModelConfig, Problem> {
        let key = resources::secrets::<Model>(self.workspace, &row)?;
        Ok(model.config(key))
    }

    /// The model called `default`, or the only one, or the scripted one, which
    /// needs nothing.
    async fn default_model(&self) -> Result<ModelConfig, Problem> {
        let store = &self.workspace.store;
        let kind = ResourceKind::Model;
        if let Some(row) = store.resource_by_name(self.owner, kind, DEFAULT_MODEL).await? {
            return self.model(resources::from_row(row)?);
        }
        let mut rows = store.list_resources(self.owner, kind, None, 2).await?;
        match (rows.pop(), rows.is_empty()) {
            (Some(only), true) => self.model(resources::from_row(only)?),
            (Some(_), false) | (None, _) => Ok(ModelConfig::default()),
        }
    }

    async fn environment(&self, id: &str) -> Result<AgentEnv, Problem> {
        let (row, body) = self.find::<Environment>("environmentId".to_owned(), id).await?;
        let variables = resources::secrets::<Environment>(self.workspace, &row)?;
        let setup_script = Some(body.setup_script).filter(|script| !script.is_empty());
        Ok(AgentEnv { variables, setup_script })
    }

    async fn skill(&self, field: String, id: &str) -> Result<SkillName, Problem> {
        if skills::is_built_in(id) {
            return self.workspace.built_in_skill(id);
        }
        let (row, skill) = self.find::<Skill>(field, id).await?;
        let id = SkillId::parse(row.id.as_str()).map_err(|err| {
            Problem::new(Code::Internal, "the id of a skill is not one for agents").caused_by(err)
        })?;
        Ok(SkillName { id, name: row.name, version: skill.version })
    }

    async fn mcp_server(&self, field: String, id: &str) -> Result<ServerConfig, Problem> {
        let (row, server) = self.find::<McpServer>(field, id).await?;
        let values = resources::secrets::<McpServer>(self.workspace, &row)?;
        let name = row.name;
        Ok(match server.transport {
            Transport::Stdio { command, args, .. } => {
                ServerConfig::Stdio { name, command, args, env: values }
            }
            Transport::Http { url, .. } => ServerConfig::Http { name, url, headers: values },
        })
    }
}

/// The agent of conversations that name none.
fn assistant() -> Agent {
    Agent {
        system_prompt: ASSISTANT.trim_end().to_owned(),
        model_id: None,
        environment_id: None,
        max_rounds: ASSISTANT_ROUNDS,
        skill_ids: BUILT_IN.map(str::to_owned).to_vec(),
        mcp_server_ids: Vec::new(),
        template: None,
        harness: None,
    }
}
