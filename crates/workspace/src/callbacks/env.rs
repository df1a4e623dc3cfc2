//! `GET {agent_url}/env`: the named environment, against the setup token.

use std::collections::BTreeMap;

use axum::{Json, extract::State, http::HeaderMap};
use serde::Serialize;
use store::OtpKind;
use utoipa::ToSchema;

use super::Brief;
use crate::{
    body::Path,
    problem::{Problem, ProblemBody},
    state::Workspace,
};

/// A named environment, opened.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenedEnvironment)]
pub(super) struct Environment {
    /// Variables for tools, recipes and the setup script.
    variables: BTreeMap<String, String>,
    /// Shell script that runs before the first model call; may be empty.
    setup_script: String,
}

/// What the sandbox's programs find around them.
#[utoipa::path(
    get,
    path = "/{session_id}/env",
    tag = "callbacks",
    params(("session_id" = String, Path, description = "The session of the dispatch")),
    security(("otp" = [])),
    responses(
        (status = 200, description = "The environment", body = Environment),
        (status = 401, description = "The token is unknown, used or late", body = ProblemBody),
    )
)]
pub(super) async fn env(
    State(workspace): State<Workspace>,
    Path(session): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Environment>, Problem> {
    let session = workspace.redeem(&session, OtpKind::Setup, &headers).await?;
    let agent = Brief::of(&session).agent()?;
    let agent = workspace.resolve_agent(&session.workspace, agent.as_ref()).await?;
    Ok(Json(Environment {
        variables: agent.environment.variables,
        setup_script: agent.environment.setup_script.unwrap_or_default(),
    }))
}
