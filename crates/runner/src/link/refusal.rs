//! Answers of the link itself, when there is none of an upstream.
//!
//! Whoever reads them is inside: they name upstreams, never addresses.

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use sandbox::{Body, full_body};
use serde_json::json;

use super::{addresses::BadConfig, body::Cut, outbound::SendError, route, sessions::SessionError};

/// Why a request was not passed on, or its answer not passed back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("there is no such path on the host link")]
    NoPath,
    #[error("the path could lead out of its upstream")]
    UnsafePath,
    #[error("config was not fetched yet")]
    NoConfigYet,
    #[error("this run has no {0}")]
    NoUpstream(&'static str),
    #[error("the request has more than {limit} bytes")]
    RequestTooLarge { limit: u64 },
    #[error("the answer of the {from} has more than {limit} bytes")]
    AnswerTooLarge { from: &'static str, limit: u64 },
    #[error("the {from} {source}")]
    NoAnswer { from: &'static str, source: SendError },
    #[error("the {from} did not answer within {} s", .after.as_secs())]
    Late { from: &'static str, after: Duration },
    #[error("the {from} answered {status}; redirects are not followed")]
    Redirect { from: &'static str, status: StatusCode },
    #[error("the {from} broke its answer off")]
    Broken { from: &'static str },
    #[error("the config is not JSON")]
    NotJson,
    #[error("the config cannot be used: {0}")]
    Config(#[from] BadConfig),
    #[error("the run has used {spent} tokens of its budget of {budget}")]
    TokenBudget { spent: u64, budget: u64 },
    #[error("{0}")]
    NotKept(String),
    #[error("the tools of this run need its bearer")]
    Bearer,
    #[error("only {0} is answered here")]
    Method(&'static str),
    #[error("there is no such session")]
    NoSession,
    #[error("the session cannot be kept: {0}")]
    Session(#[from] SessionError),
    #[error("the run is ending")]
    Ending,
}

impl Refusal {
    /// Of a body that was cut while the link itself was reading it.
    pub(super) fn of_cut(from: &'static str, cut: Cut) -> Refusal {
        match cut {
            Cut::TooLarge { limit } => Refusal::AnswerTooLarge { from, limit },
            Cut::Silent { after } => Refusal::Late { from, after },
        }
    }

    /// The answer.
    pub(super) fn response(&self) -> Response<Body> {
        let (status, kind) = self.kind();
        let mut body = json!({"error": {"type": kind, "message": self.to_string()}});
        if let Refusal::NoPath = self {
            body["error"]["paths"] = json!(route::PATHS);
        }
        let mut response = Response::new(full_body(body.to_string()));
        *response.status_mut() = status;
        if let Refusal::Method(method) = self {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(method));
        }
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }

    /// None but the one about the tools' bearer is 401 or 403: those are the
    /// workspace's word on a token.
    fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Refusal::NoPath | Refusal::NoUpstream(_) | Refusal::NoSession => {
                (StatusCode::NOT_FOUND, "not_found")
            }
            Refusal::Bearer => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Refusal::Method(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Refusal::Session(SessionError::TooLarge { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "too_large")
            }
            Refusal::Session(SessionError::TooMany { .. }) => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many")
            }
            Refusal::Session(SessionError::Broken) => (StatusCode::BAD_REQUEST, "broken_request"),
            Refusal::Session(SessionError::Disk(_)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "not_kept")
            }
            Refusal::UnsafePath => (StatusCode::BAD_REQUEST, "unsafe_path"),
            Refusal::NoConfigYet => (StatusCode::CONFLICT, "no_config"),
            Refusal::NotKept(_) => (StatusCode::UNPROCESSABLE_ENTITY, "not_kept"),
            Refusal::RequestTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Refusal::AnswerTooLarge { .. } => (StatusCode::BAD_GATEWAY, "answer_too_large"),
            Refusal::NoAnswer { source: SendError::Denied, .. } => {
                (StatusCode::BAD_GATEWAY, "address_denied")
            }
            Refusal::NoAnswer { .. } => (StatusCode::BAD_GATEWAY, "unreachable"),
            Refusal::Late { .. } => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            Refusal::Redirect { .. } => (StatusCode::BAD_GATEWAY, "redirect"),
            Refusal::Broken { .. } => (StatusCode::BAD_GATEWAY, "broken_answer"),
            Refusal::NotJson | Refusal::Config(_) => (StatusCode::BAD_GATEWAY, "bad_config"),
            Refusal::TokenBudget { .. } => (StatusCode::TOO_MANY_REQUESTS, "token_budget"),
            Refusal::Ending => (StatusCode::SERVICE_UNAVAILABLE, "ending"),
        }
    }
}
