//! Why a request failed: the one place where errors of this crate become answers.
//!
//! `code` is for programs, `message` for people, `field` says which part of the
//! request is meant. The cause goes to the log and nowhere else.

use std::error::Error;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use http_kit::{Fault, chain};
use serde::Serialize;
use store::StoreError;
use utoipa::ToSchema;
use wire::Code;

/// A failed request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// The body of every answer that is not a success.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemBody {
    /// What went wrong, for programs: `not_found`, `name_taken`, `otp_used`, …
    code: &'static str,
    /// What went wrong, for people.
    message: String,
    /// The part of the request that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

impl Problem {
    /// A problem whose status and code are those of `code`.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Problem {
        let status = StatusCode::from_u16(code.http_status());
        Problem {
            status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: code.name(),
            message: message.into(),
            field: None,
            cause: None,
        }
    }

    /// The request says something that cannot be, in `field`.
    pub(crate) fn bad_field(field: impl Into<String>, message: impl Into<String>) -> Problem {
        let problem = Problem::new(Code::InvalidArgument, message);
        Problem { field: Some(field.into()), ..problem }
    }

    /// There is no such thing, or it is somebody else's.
    pub(crate) fn not_found(what: &str, id: &str) -> Problem {
        Problem::new(Code::NotFound, format!("{what} `{id}` was not found"))
    }

    /// It cannot be done as things are.
    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Problem {
        Problem { code, ..Problem::new(Code::AlreadyExists, message) }
            .with_status(StatusCode::CONFLICT)
    }

    /// A more exact code than the status has.
    pub(crate) fn with_code(self, code: &'static str) -> Problem {
        Problem { code, ..self }
    }

    /// Another status than the code's own.
    pub(crate) fn with_status(self, status: StatusCode) -> Problem {
        Problem { status, ..self }
    }

    /// Which part of the request is meant.
    pub(crate) fn in_field(self, field: impl Into<String>) -> Problem {
        Problem { field: Some(field.into()), ..self }
    }

    /// What went wrong inside, for the log.
    pub(crate) fn caused_by(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Problem {
        Problem { cause: Some(cause.into()), ..self }
    }

    /// The code, for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// The message, for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            let cause = self.cause.as_deref().map_or_else(String::new, |cause| chain(cause));
            tracing::error!(code = self.code, cause, "{}", self.message);
        }
        let Problem { status, code, message, field, .. } = self;
        (status, Json(ProblemBody { code, message, field })).into_response()
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        Problem::new(fault.code(), fault.message())
    }
}

impl From<StoreError> for Problem {
    fn from(err: StoreError) -> Problem {
        let (code, name, status) = match &err {
            StoreError::Busy => (Code::Unavailable, "busy", StatusCode::SERVICE_UNAVAILABLE),
            StoreError::Full => {
                (Code::ResourceExhausted, "storage_full", StatusCode::INSUFFICIENT_STORAGE)
            }
            StoreError::Database(_) | StoreError::Damaged { .. } => {
                (Code::Internal, "internal", StatusCode::INTERNAL_SERVER_ERROR)
            }
        };
        Problem::new(code, err.to_string()).with_code(name).with_status(status).caused_by(err)
    }
}
