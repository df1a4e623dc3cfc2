//! `GET {agent_url}/skills/{id}/{version}`: a skill's zip, by a signed address:
//! the agent has no token left when it fetches skills.

use axum::{body::Body, extract::State, response::Response};
use chrono::{DateTime, Utc};
use store::{SessionCaller, SessionRow};
use wire::{
    Code,
    agent::{SkillId, SkillVersion},
    workspace::SessionId,
};

use crate::{
    body::{Path, Query},
    problem::{Problem, ProblemBody},
    signature::Signed,
    state::Workspace,
};

/// Where a session's agent fetches a skill.
pub(super) fn signed_url(
    workspace: &Workspace,
    session: &SessionRow,
    id: &SkillId,
    version: &SkillVersion,
    expires_at: DateTime<Utc>,
) -> String {
    let prefix = match session.caller {
        SessionCaller::Assistant => "assistant",
        SessionCaller::Agents => "agents",
    };
    let query = workspace.keyring.sign(&subject(&session.id, id, version), expires_at);
    let base = &workspace.settings.base_url;
    format!("{base}/api/{prefix}/sandbox/{}/skills/{id}/{version}?{query}", session.id)
}

/// A skill bundle: a zip whose SHA-256 is its version.
#[utoipa::path(
    get,
    path = "/{session_id}/skills/{id}/{version}",
    tag = "callbacks",
    params(
        ("session_id" = String, Path, description = "The session of the dispatch"),
        ("id" = String, Path, description = "The skill"),
        ("version" = String, Path, description = "SHA-256 of the zip"),
        Signed,
    ),
    security(("signature" = [])),
    responses(
        (status = 200, description = "The zip", content_type = "application/zip"),
        (status = 400, description = "The query is not one that was signed", body = ProblemBody),
        (status = 403, description = "The address is not signed, or expired", body = ProblemBody),
        (status = 404, description = "There is no such skill", body = ProblemBody),
    )
)]
pub(super) async fn bundle(
    State(workspace): State<Workspace>,
    Path((session, id, version)): Path<(String, String, String)>,
    Query(signed): Query<Signed>,
) -> Result<Response<Body>, Problem> {
    let nothing = || Problem::new(Code::NotFound, "there is no such skill");
    let session = SessionId::parse(&session).map_err(|_| nothing())?;
    let id = SkillId::parse(&id).map_err(|_| nothing())?;
    let version = SkillVersion::parse(&version).map_err(|_| nothing())?;
    workspace.check_signature(&subject(&session, &id, &version), &signed)?;
    let session = workspace.store.session(&session).await?.ok_or_else(nothing)?;
    let bundle = workspace.skill_bundle(&session.workspace, &id, &version).await?;
    Ok(bundle.into_response())
}

fn subject(session: &SessionId, id: &SkillId, version: &SkillVersion) -> String {
    format!("skills/{session}/{id}/{version}")
}
