//! A failed REST call: status, outside message and inside cause as three things.

use std::error::Error;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::HeaderName},
    response::{IntoResponse, Response},
};
use wire::{Code, RestError};

/// Python's SDK repeats a 429, 502, 503 or 504 unless this header forbids it.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// Why a request failed. The message is for the caller, the cause for the log.
#[derive(Debug)]
pub struct Fault {
    code: Code,
    status: StatusCode,
    message: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Fault {
    /// A fault whose status follows from its code.
    pub fn new(code: Code, message: impl Into<String>) -> Fault {
        let status = StatusCode::from_u16(code.http_status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Fault { code, status, message: message.into(), cause: None }
    }

    /// Keeps what went wrong inside, for the log.
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Fault {
        self.cause = Some(cause.into());
        self
    }

    /// Another status than the code's own, where HTTP has a better one.
    pub fn with_status(mut self, status: StatusCode) -> Fault {
        self.status = status;
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The message for the caller.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            let cause = self.cause.as_deref().map_or_else(String::new, |cause| chain(cause));
            tracing::error!(code = self.code.name(), cause, "{}", self.message);
        }
        let body = RestError { code: self.status.as_u16(), message: self.message };
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::NOT_IMPLEMENTED {
            response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

/// An error and everything that led to it, for the log.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
