//! One sandbox: look, connect, end, change the deadline.

use axum::{Json, extract::State, http::StatusCode};
use http_kit::{Body, Fault};
use sandbox::Lifetime;
use wire::{Code, Connect, Refresh, SandboxDetail, SetTimeout};

use super::network;
use crate::{Gateway, caller::Owned, fault};

/// `GET /sandboxes/{id}`.
pub(crate) async fn info(
    State(gateway): State<Gateway>,
    Owned(sandbox): Owned,
) -> Json<SandboxDetail> {
    let (allow_internet_access, network) = network::describe(&sandbox.network());
    Json(SandboxDetail {
        listed: gateway.summarize(&sandbox),
        envd_access_token: Some(gateway.tokens.issue(sandbox.id())),
        domain: gateway.domain(),
        allow_internet_access,
        network,
    })
}

/// `POST …/connect`: the sandbox lives at least that much longer. A shorter
/// timeout leaves the deadline as it is, to the byte.
pub(crate) async fn connect(
    State(gateway): State<Gateway>,
    Owned(sandbox): Owned,
    Body(body): Body<Connect>,
) -> Result<Json<wire::Sandbox>, Fault> {
    let lifetime = Lifetime::for_living(body.timeout.unwrap_or(300)).map_err(fault::of_timeout)?;
    sandbox.extend_lifetime(lifetime).await.ok_or_else(over)?;
    Ok(Json(gateway.describe(&sandbox)))
}

/// `DELETE /sandboxes/{id}`: answers when nothing of it is left.
pub(crate) async fn kill(
    State(gateway): State<Gateway>,
    Owned(sandbox): Owned,
) -> Result<StatusCode, Fault> {
    let killing = gateway.sandboxes.detach(async move { sandbox.kill().await });
    killing.await.map_err(|err| {
        Fault::new(Code::Internal, "ending the sandbox was interrupted").caused_by(err)
    })?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST …/timeout`: seconds from now, earlier or later.
pub(crate) async fn set_timeout(
    Owned(sandbox): Owned,
    Body(body): Body<SetTimeout>,
) -> Result<StatusCode, Fault> {
    let lifetime = Lifetime::for_living(body.timeout).map_err(fault::of_timeout)?;
    sandbox.set_lifetime(lifetime).await.ok_or_else(over)?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST …/refreshes`: only ever later.
pub(crate) async fn refresh(
    Owned(sandbox): Owned,
    Body(body): Body<Refresh>,
) -> Result<StatusCode, Fault> {
    let lifetime = Lifetime::for_living(body.duration.unwrap_or(15)).map_err(fault::of_timeout)?;
    sandbox.extend_lifetime(lifetime).await.ok_or_else(over)?;
    Ok(StatusCode::NO_CONTENT)
}

/// It ended between being found and being changed.
fn over() -> Fault {
    Fault::new(Code::NotFound, "the sandbox was not found: it has just ended")
}
