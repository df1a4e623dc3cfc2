//! Who asks: somebody with an API key, or a sandbox with its bearer.

use axum::{
    extract::{FromRef, FromRequestParts},
    http::{HeaderMap, header::AUTHORIZATION, request::Parts},
};
use http_kit::Keys;
use store::SessionRow;
use wire::Code;

use crate::{clock, keyring, problem::Problem, state::Workspace};

/// What the bearers of sandboxes start with.
pub(crate) const BEARER_PREFIX: &str = "asbx_";

/// Somebody with an API key: the workspace is its team's.
pub(crate) struct Owner(pub(crate) String);

/// Somebody who may use what is in the workspace: its owner, or a sandbox that
/// works for it.
pub(crate) struct Member {
    /// Whose things these are.
    pub(crate) workspace: String,
    /// The dispatch that the sandbox belongs to.
    pub(crate) session: Option<SessionRow>,
}

impl FromRef<Workspace> for Keys {
    fn from_ref(workspace: &Workspace) -> Keys {
        workspace.keys.clone()
    }
}

impl FromRequestParts<Workspace> for Owner {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        workspace: &Workspace,
    ) -> Result<Owner, Problem> {
        if bearer(&parts.headers).is_some() {
            let message = "a sandbox's bearer opens only what is below /api/workspace";
            return Err(Problem::new(Code::PermissionDenied, message));
        }
        Ok(Owner(workspace.keys.team(&parts.headers).await?.0))
    }
}

impl FromRequestParts<Workspace> for Member {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        workspace: &Workspace,
    ) -> Result<Member, Problem> {
        let Some(token) = bearer(&parts.headers) else {
            let team = workspace.keys.team(&parts.headers).await?;
            return Ok(Member { workspace: team.0, session: None });
        };
        let session =
            workspace.store.session_of_bearer(&keyring::hash(token), clock::now()).await?;
        let session = session.ok_or_else(|| {
            Problem::new(Code::Unauthenticated, "the bearer is not known, or its run has ended")
        })?;
        Ok(Member { workspace: session.workspace.clone(), session: Some(session) })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    Some(token.trim()).filter(|token| is_bearer && token.starts_with(BEARER_PREFIX))
}
