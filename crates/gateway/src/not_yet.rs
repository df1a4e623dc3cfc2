//! The part of E2B's surface that is not served yet: a loud, structured answer
//! instead of a 404 that looks like a typo.

use axum::http::{Method, Uri};
use http_kit::{Caller, Fault};
use wire::Code;

/// Paths that exist in E2B and not here.
pub(crate) const PATHS: [&str; 23] = [
    "/sandboxes/{id}/pause",
    "/sandboxes/{id}/resume",
    "/sandboxes/{id}/fork",
    "/sandboxes/{id}/snapshots",
    "/sandboxes/{id}/metrics",
    "/sandboxes/metrics",
    "/v2/sandboxes/{id}/logs",
    "/snapshots",
    "/templates",
    "/v2/templates",
    "/v3/templates",
    "/default-templates",
    "/templates/{id}/{*rest}",
    "/v2/templates/{*rest}",
    "/volumes",
    "/volumes/{*rest}",
    "/volumecontent/{*rest}",
    "/secrets",
    "/secrets/{*rest}",
    "/events/{*rest}",
    "/teams",
    "/execute",
    "/contexts",
];

/// Says so, to whoever has a key.
pub(crate) async fn answer(_: Caller, method: Method, uri: Uri) -> Fault {
    let path = uri.path();
    Fault::new(Code::Unimplemented, format!("{method} {path} is not in this version of Mayfly"))
}
