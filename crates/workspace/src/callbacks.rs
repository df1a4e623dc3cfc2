//! What a sandbox calls back for: `{agent_url}/env`, `/config`, `/skills`, `/results`.
//!
//! One set of handlers below two addresses: the session says whether a turn of
//! the Assistant or an Agents block is behind it.

mod config;
mod env;
mod history;
mod results;
mod shape;
mod skills;

use serde::Deserialize;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::workspace::{ResourceId, ResourceKind};

use crate::{problem::Problem, state::Workspace};

/// The callbacks, for either caller.
pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    let mut agents = callbacks();
    for item in agents.get_openapi_mut().paths.paths.values_mut() {
        for operation in operations(item) {
            // Names of operations are unique in a document.
            operation.operation_id =
                operation.operation_id.take().map(|name| format!("agents_{name}"));
        }
    }
    OpenApiRouter::new()
        .nest("/api/assistant/sandbox", callbacks())
        .nest("/api/agents/sandbox", agents)
}

/// Each of them behind a session: `/{session_id}/env` and so on.
fn callbacks() -> OpenApiRouter<Workspace> {
    OpenApiRouter::new()
        .routes(routes!(env::env))
        .routes(routes!(config::config))
        .routes(routes!(skills::bundle))
        .merge(results::routes())
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post].into_iter().flatten()
}

/// What a session's `brief` says of its agent. The rest of it is for whoever
/// dispatched.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Brief {
    #[serde(default)]
    agent_id: Option<String>,
}

impl Brief {
    fn of(session: &store::SessionRow) -> Brief {
        // We wrote it ourselves; one that does not read names no agent.
        serde_json::from_value(session.brief.clone()).unwrap_or_default()
    }

    fn agent(&self) -> Result<Option<ResourceId>, Problem> {
        let parse = |text: &String| {
            ResourceId::parse(ResourceKind::Agent, text)
                .map_err(|err| Problem::bad_field("agentId", err.to_string()))
        };
        self.agent_id.as_ref().map(parse).transpose()
    }
}
