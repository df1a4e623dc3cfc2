//! Pages of other origins: which of them a browser lets call this server.
//!
//! Keys travel in headers that a page sets itself, so nothing is allowed that
//! the page did not bring: no cookies, no credentials of the browser's.

use std::time::Duration;

use axum::http::{HeaderName, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::config::WebOrigin;

/// How long a browser may remember the answer.
const REMEMBERED: Duration = Duration::from_secs(600);

/// What tells browsers about these origins; none without any.
pub(super) fn layer(origins: &[WebOrigin]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let named = origins.iter().filter_map(|origin| match origin {
        WebOrigin::Any => None,
        WebOrigin::One(origin) => Some(origin.clone()),
    });
    let allowed = if origins.contains(&WebOrigin::Any) {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(named)
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([HeaderName::from_static("x-mayfly-run-id")])
        .max_age(REMEMBERED);
    Some(layer)
}
