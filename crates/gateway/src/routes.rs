//! Every route, in one list: ours, which describe themselves, and E2B's, which
//! E2B's own specification describes.

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{any, delete, get, post, put},
};
use http::StatusCode;
use http_kit::{Fault, log_requests};
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::Code;

use crate::{Gateway, commands, data_plane, e2b, health, metrics, not_yet};

/// The front door's routes, and those of whoever is `beside` it. Traffic for a
/// sandbox is taken out before any of them is matched, so a sandbox's `/health`
/// is never mistaken for ours. `around` is what surrounds all routes but sandboxes'.
pub fn router(gateway: Gateway, beside: Router, around: impl FnOnce(Router) -> Router) -> Router {
    let requests = Arc::clone(&gateway.requests);
    let (ours, _) = described().split_for_parts();
    let all = ours
        .merge(control_plane())
        .with_state(gateway.clone())
        .merge(beside)
        .fallback(|| async { Fault::new(Code::NotFound, "there is no such route") })
        .method_not_allowed_fallback(|| async {
            Fault::new(Code::Unimplemented, "this route does not take that method")
                .with_status(StatusCode::METHOD_NOT_ALLOWED)
        });
    around(all)
        .layer(middleware::from_fn_with_state(gateway, data_plane::divert))
        .layer(middleware::from_fn_with_state(requests, log_requests))
}

/// What describes our routes.
pub fn document() -> OpenApi {
    described().into_openapi()
}

fn described() -> OpenApiRouter<Gateway> {
    OpenApiRouter::default()
        .routes(routes!(health::health))
        .routes(routes!(metrics::scrape))
        .routes(routes!(commands::start::start, commands::list))
        .routes(routes!(commands::look))
        .routes(routes!(commands::kill))
}

/// E2B's control plane. Both generations of create and connect are live.
fn control_plane() -> Router<Gateway> {
    let routes = Router::new()
        .route("/sandboxes", post(e2b::create_v1).get(e2b::list_running))
        .route("/v2/sandboxes", post(e2b::create_v2).get(e2b::list))
        .route("/sandboxes/{id}", get(e2b::info).delete(e2b::kill))
        .route("/sandboxes/{id}/connect", post(e2b::connect))
        .route("/v2/sandboxes/{id}/connect", post(e2b::connect))
        .route("/sandboxes/{id}/timeout", post(e2b::set_timeout))
        .route("/sandboxes/{id}/refreshes", post(e2b::refresh))
        .route("/sandboxes/{id}/network", put(e2b::update_network))
        .route("/sandboxes/{id}/logs", get(e2b::logs));
    let routes =
        not_yet::PATHS.iter().fold(routes, |routes, path| routes.route(path, any(not_yet::answer)));
    routes.route(
        "/templates/{id}",
        delete(not_yet::answer).get(not_yet::answer).patch(not_yet::answer),
    )
}
