//! Reading what a caller sent, with an error that says what was wrong.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{StatusCode, header::CONTENT_TYPE, request::Parts},
};
use serde::de::DeserializeOwned;
use wire::Code;

use crate::Fault;

/// Largest JSON body of the control plane.
const LIMIT: usize = 1 << 20;

/// A JSON body. An empty one reads as `{}`, for routes whose fields are all optional.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, Fault> {
        let declared = request.headers().get(CONTENT_TYPE).cloned();
        let bytes = axum::body::to_bytes(request.into_body(), LIMIT).await.map_err(|_| {
            Fault::new(
                Code::ResourceExhausted,
                format!("body was cut off or is larger than {LIMIT} bytes"),
            )
            .with_status(StatusCode::PAYLOAD_TOO_LARGE)
        })?;
        if bytes.is_empty() {
            return parse(b"{}").map(Body);
        }
        // curl sends a form type unless told otherwise; what counts is the body.
        let is_text = declared.as_ref().and_then(|value| value.to_str().ok()).is_none_or(|value| {
            value.contains("json") || value.starts_with("application/x-www-form-urlencoded")
        });
        if !is_text {
            return Err(Fault::new(Code::InvalidArgument, "content type must be application/json")
                .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        parse(&bytes).map(Body)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes)
        .map_err(|err| Fault::new(Code::InvalidArgument, format!("body is not valid: {err}")))
}

/// A query string.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Fault> {
        axum::extract::Query::try_from_uri(&parts.uri).map(|query| Query(query.0)).map_err(|err| {
            Fault::new(Code::InvalidArgument, format!("query is not valid: {}", err.body_text()))
        })
    }
}
