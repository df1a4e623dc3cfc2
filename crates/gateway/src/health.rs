//! `/health`: whether the server answers.

use http::StatusCode;

/// Whether the server answers.
#[utoipa::path(
    get,
    path = "/health",
    tag = "server",
    security(()),
    responses((status = 200, description = "It does.")),
)]
pub(crate) async fn health() -> StatusCode {
    StatusCode::OK
}
