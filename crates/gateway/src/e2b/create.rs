//! `POST /sandboxes` and `POST /v2/sandboxes`. Detached: a client that hangs
//! up abandons its wait, and the sandbox lives until its deadline.

use std::{sync::Arc, time::Instant};

use axum::{Json, extract::State, http::StatusCode};
use http_kit::{Body, Caller, Fault};
use sandbox::{Lifetime, Sandbox};
use wire::{Code, NewSandbox};

use super::network;
use crate::{Gateway, fault};

type Created = (StatusCode, Json<wire::Sandbox>);

/// The old route: a sandbox lives 15 seconds unless told otherwise.
pub(crate) async fn create_v1(
    state: State<Gateway>,
    caller: Caller,
    body: Body<NewSandbox>,
) -> Result<Created, Fault> {
    answer(state, caller, body, 15).await
}

/// The new route: 300 seconds.
pub(crate) async fn create_v2(
    state: State<Gateway>,
    caller: Caller,
    body: Body<NewSandbox>,
) -> Result<Created, Fault> {
    answer(state, caller, body, 300).await
}

async fn answer(
    State(gateway): State<Gateway>,
    Caller(team): Caller,
    Body(new): Body<NewSandbox>,
    default_timeout: i64,
) -> Result<Created, Fault> {
    refuse_what_is_not_there(&new)?;
    let timeout = new.timeout.unwrap_or(default_timeout);
    let lifetime = Lifetime::for_new(timeout).map_err(fault::of_timeout)?;
    let new = sandbox::NewSandbox {
        team: team.0,
        template: new.template_id,
        lifetime,
        metadata: new.metadata.unwrap_or_default(),
        envs: new.env_vars.unwrap_or_default(),
        network: network::wish(new.network.as_ref(), new.allow_internet_access)?,
    };
    let sandbox = create(&gateway, new).await?;
    Ok((StatusCode::CREATED, Json(gateway.describe(&sandbox))))
}

/// Makes a sandbox and books how long that took.
pub(crate) async fn create(
    gateway: &Gateway,
    new: sandbox::NewSandbox,
) -> Result<Arc<Sandbox>, Fault> {
    let began = Instant::now();
    let sandbox = gateway.sandboxes.create(new).await.map_err(fault::of_create)?;
    let duration = began.elapsed();
    gateway.starts.record(duration);
    let id = sandbox.id();
    let duration_ms = duration.as_secs_f64() * 1e3;
    tracing::info!(sandbox.id = %id, duration_ms, "sandbox {id} started");
    Ok(sandbox)
}

/// A wish that would be ignored is refused by name: silence would look like consent.
fn refuse_what_is_not_there(new: &NewSandbox) -> Result<(), Fault> {
    let absent = |value: &serde_json::Value| {
        value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
    };
    let wishes = [
        ("autoPause", new.auto_pause == Some(true)),
        ("mcp", new.mcp.as_ref().is_some_and(|value| !absent(value))),
        ("volumeMounts", new.volume_mounts.as_ref().is_some_and(|list| !list.is_empty())),
    ];
    match wishes.into_iter().find(|(_, wished)| *wished) {
        None => Ok(()),
        Some((field, _)) => Err(Fault::new(
            Code::Unimplemented,
            format!("`{field}` is not in this version of Mayfly"),
        )),
    }
}
