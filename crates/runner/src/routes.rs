//! Every route, in one list, and the document that describes them. The front
//! door merges them with its own, so that traffic for a sandbox is taken out
//! before any of them is matched.

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{agui, assets, list, look, office::Runner, stream};

/// The runner's routes, and what describes them.
pub fn router(runner: Runner) -> (Router, OpenApi) {
    let (router, document) = described().split_for_parts();
    (router.with_state(runner), document)
}

fn described() -> OpenApiRouter<Runner> {
    OpenApiRouter::default()
        .routes(routes!(stream::dispatch))
        .routes(routes!(agui::run))
        .routes(routes!(list::list))
        .routes(routes!(look::info))
        .routes(routes!(stream::follow))
        .routes(routes!(look::cancel))
        .routes(routes!(look::file))
        .routes(routes!(assets::list))
        .routes(routes!(assets::file))
}
