//! Reading what a caller sent, with an error that names the field.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{StatusCode, header::CONTENT_TYPE, request::Parts},
};
use serde::de::DeserializeOwned;
use wire::Code;

use crate::problem::Problem;

/// Largest JSON body.
const LIMIT: usize = 4 << 20;

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Json<T>, Problem> {
        let declared = request.headers().get(CONTENT_TYPE).cloned();
        let declared = declared.as_ref().and_then(|value| value.to_str().ok());
        // curl sends a form type unless told otherwise; what counts is the body.
        let is_text = declared.is_none_or(|value| {
            value.contains("json") || value.starts_with("application/x-www-form-urlencoded")
        });
        if !is_text {
            return Err(Problem::new(
                Code::InvalidArgument,
                "content type must be application/json",
            )
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let bytes = axum::body::to_bytes(request.into_body(), LIMIT).await.map_err(|_| {
            let message = format!("body was cut off or is larger than {LIMIT} bytes");
            Problem::new(Code::ResourceExhausted, message)
                .with_status(StatusCode::PAYLOAD_TOO_LARGE)
        })?;
        parse(&bytes).map(Json)
    }
}

/// Reads JSON; an error says where in it something is wrong.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // An empty body is one without fields.
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|err| {
        let message = err.inner().to_string();
        let field = field_of(&err.path().to_string(), &message);
        let problem = Problem::new(Code::InvalidArgument, format!("body is not valid: {message}"));
        if field.is_empty() { problem } else { problem.in_field(field) }
    })?;
    reader
        .end()
        .map_err(|err| Problem::new(Code::InvalidArgument, format!("body is not valid: {err}")))?;
    Ok(value)
}

/// The field that an error is about. One that is missing is only named in the
/// message; the path leads to where it should be.
fn field_of(path: &str, message: &str) -> String {
    let path = path.trim_start_matches('.');
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    match missing {
        None => path.to_owned(),
        Some(name) if path.is_empty() => name.to_owned(),
        Some(name) => format!("{path}.{name}"),
    }
}

/// A query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Problem> {
        let query = axum::extract::Query::try_from_uri(&parts.uri);
        query.map(|query| Query(query.0)).map_err(|err| {
            Problem::new(Code::InvalidArgument, format!("query is not valid: {}", err.body_text()))
        })
    }
}

/// The variable parts of a path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        // A part that cannot be an id names nothing.
        path.map(|path| Path(path.0)).map_err(|err| Problem::new(Code::NotFound, err.body_text()))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::parse;

    #[derive(Debug, Deserialize)]
    struct Outer {
        #[expect(dead_code, reason = "only whether it reads is asked")]
        items: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only whether it reads is asked")]
        size: u32,
    }

    #[track_caller]
    fn check(body: &str, field: &str) {
        let problem = format!("{:?}", parse::<Outer>(body.as_bytes()).unwrap_err());
        assert!(problem.contains(&format!("field: {field}")), "{problem}");
    }

    #[test]
    fn an_error_names_the_field_by_its_path() {
        assert!(parse::<Outer>(br#"{"items":[{"size":1}]}"#).is_ok());
        check(r#"{"items":[{"size":1},{"size":"x"}]}"#, r#"Some("items[1].size")"#);
        check(r#"{"items":[{"size":1,"more":2}]}"#, r#"Some("items[0].more")"#);
        check(r#"{"items":[{}]}"#, r#"Some("items[0].size")"#);
        check("", r#"Some("items")"#);
        check(r#"{"items":[]} {"#, "None");
    }
}
