//! Who asks, and for which sandbox.

use std::sync::Arc;

use axum::{
    extract::{FromRef, FromRequestParts, Path},
    http::request::Parts,
};
use http_kit::{Caller, Fault, Keys, Team};
use sandbox::Sandbox;
use wire::{Code, SandboxId};

use crate::Gateway;

impl FromRef<Gateway> for Keys {
    fn from_ref(gateway: &Gateway) -> Keys {
        gateway.keys.clone()
    }
}

/// The caller's own living sandbox, named in the path.
pub(crate) struct Owned(pub(crate) Arc<Sandbox>);

impl FromRequestParts<Gateway> for Owned {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, gateway: &Gateway) -> Result<Owned, Fault> {
        let Caller(team) = Caller::from_request_parts(parts, gateway).await?;
        let Path(id) = Path::<String>::from_request_parts(parts, gateway)
            .await
            .map_err(|_| Fault::new(Code::InvalidArgument, "the path names no sandbox"))?;
        gateway.owned(&id, &team).map(Owned)
    }
}

impl Gateway {
    /// A living sandbox of `team`. One of another team is as unknown as none.
    pub(crate) fn owned(&self, id: &str, team: &Team) -> Result<Arc<Sandbox>, Fault> {
        SandboxId::parse(id)
            .ok()
            .and_then(|id| self.sandboxes.get_owned(&id, &team.0))
            .ok_or_else(|| Fault::new(Code::NotFound, format!("sandbox `{id}` was not found")))
    }
}
