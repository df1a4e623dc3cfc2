//! `GET {agent_url}/config`: who the agent is and what it has, against the run
//! token. The only place that gives the session's bearer out.

use axum::{Json, extract::State, http::HeaderMap};
use chrono::TimeDelta;
use serde_json::{Value, json};
use store::{OtpKind, SessionCaller, SessionRow};
use wire::{
    Code,
    agent::{AgentConfig, Caller, HarnessRef, SkillRef, WorkspaceRef},
};

use super::{Brief, history, shape::AgentConfiguration, skills};
use crate::{
    bag,
    body::Path,
    clock,
    problem::{Problem, ProblemBody},
    resolve::ResolvedAgent,
    state::Workspace,
};

/// Skills are fetched right behind the config.
const SKILL_URL_TTL: TimeDelta = TimeDelta::seconds(600);

/// The agent's definition, or one turn of the Assistant.
#[utoipa::path(
    get,
    path = "/{session_id}/config",
    tag = "callbacks",
    params(("session_id" = String, Path, description = "The session of the dispatch")),
    security(("otp" = [])),
    responses(
        (status = 200, description = "The configuration", body = AgentConfiguration),
        (status = 401, description = "The token is unknown, used or late", body = ProblemBody),
    )
)]
pub(super) async fn config(
    State(workspace): State<Workspace>,
    Path(session): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let session = workspace.redeem(&session, OtpKind::Run, &headers).await?;
    let agent = Brief::of(&session).agent()?;
    let agent = workspace.resolve_agent(&session.workspace, agent.as_ref()).await?;
    let config = assemble(&workspace, &session, agent).await?;
    let mut config = serde_json::to_value(&config).map_err(|err| {
        Problem::new(Code::Internal, "the configuration cannot be written down").caused_by(err)
    })?;
    // No tools of the caller's own yet; runners read the field all the same.
    config["tools"] = json!([]);
    if let Some(assets) = bag::project(&workspace, &session.scope, &session.workspace).await? {
        config["assets"] = assets;
    }
    Ok(Json(config))
}

async fn assemble(
    workspace: &Workspace,
    session: &SessionRow,
    agent: ResolvedAgent,
) -> Result<AgentConfig, Problem> {
    let (caller, chat_id, messages) = match session.caller {
        SessionCaller::Assistant => {
            let messages = history::before(workspace, session).await?;
            (Caller::Assistant, Some(session.scope.clone()), messages)
        }
        SessionCaller::Agents => (Caller::Agents, None, Vec::new()),
    };
    let expires_at = clock::now() + SKILL_URL_TTL;
    let skills = agent.skills.into_iter().map(|skill| {
        let url = skills::signed_url(workspace, session, &skill.id, &skill.version, expires_at);
        SkillRef { id: skill.id, name: Some(skill.name), version: skill.version, url: Some(url) }
    });
    Ok(AgentConfig {
        session_id: Some(session.id.to_string()),
        caller: Some(caller),
        system_prompt: agent.system_prompt,
        model: agent.model,
        max_rounds: agent.max_rounds,
        messages,
        chat_id,
        skills: skills.collect(),
        mcp_servers: agent.mcp_servers,
        tools: Vec::new(),
        assets: None,
        harness: Some(HarnessRef {
            kind: agent.harness.unwrap_or_default().name().to_owned(),
            session_id: None,
        }),
        workspace: Some(WorkspaceRef {
            url: format!("{}/api/workspace", workspace.settings.base_url),
            bearer: workspace.bearer(&session.id),
        }),
        max_runtime_sec: Some(workspace.settings.max_runtime.as_secs()),
    })
}
