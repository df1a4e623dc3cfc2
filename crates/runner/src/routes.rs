//! Every route, in one list. The front door merges them with its own, so that
//! traffic for a sandbox is taken out before any of them is matched.

use axum::{
    Router,
    routing::{get, post},
};

use crate::{assets, list, look, office::Runner, stream};

/// The runner's routes.
pub fn router(runner: Runner) -> Router {
    Router::new()
        .route("/stream", post(stream::dispatch))
        .route("/runs", get(list::list))
        .route("/runs/{id}", get(look::info))
        .route("/runs/{id}/stream", get(stream::follow))
        .route("/runs/{id}/cancel", post(look::cancel))
        .route("/runs/{id}/files/{name}", get(look::file))
        .route("/runs/{id}/assets", get(assets::list))
        .route("/runs/{id}/assets/{file}", get(assets::file))
        .with_state(runner)
}
