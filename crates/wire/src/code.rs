//! One set of codes for three dialects: REST status, Connect code, last stream event.

use serde::Serialize;

/// Why a request failed. The names and meanings are Connect's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The caller went away or asked to stop.
    Canceled,
    /// A failure that nothing else describes.
    Unknown,
    /// The request is wrong whatever the state of the system.
    InvalidArgument,
    /// The time limit passed before the operation finished.
    DeadlineExceeded,
    /// The named thing does not exist.
    NotFound,
    /// What should be created exists.
    AlreadyExists,
    /// The caller is known and may not do this.
    PermissionDenied,
    /// A limit or a quota is used up.
    ResourceExhausted,
    /// The system is not in the state this needs.
    FailedPrecondition,
    /// A concurrent change got in the way.
    Aborted,
    /// Past the end of a valid range.
    OutOfRange,
    /// Not supported here.
    Unimplemented,
    /// An invariant of ours is broken.
    Internal,
    /// Not reachable now; trying again may help.
    Unavailable,
    /// Data is lost or damaged beyond repair.
    DataLoss,
    /// No valid credentials.
    Unauthenticated,
}

impl Code {
    /// Every code, for tables and tests.
    pub const ALL: [Code; 16] = [
        Code::Canceled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Code::Canceled => "canceled",
            Code::Unknown => "unknown",
            Code::InvalidArgument => "invalid_argument",
            Code::DeadlineExceeded => "deadline_exceeded",
            Code::NotFound => "not_found",
            Code::AlreadyExists => "already_exists",
            Code::PermissionDenied => "permission_denied",
            Code::ResourceExhausted => "resource_exhausted",
            Code::FailedPrecondition => "failed_precondition",
            Code::Aborted => "aborted",
            Code::OutOfRange => "out_of_range",
            Code::Unimplemented => "unimplemented",
            Code::Internal => "internal",
            Code::Unavailable => "unavailable",
            Code::DataLoss => "data_loss",
            Code::Unauthenticated => "unauthenticated",
        }
    }

    /// Reads a name from the wire; `None` for one that Connect does not know.
    pub fn parse(name: &str) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.name() == name)
    }

    /// The HTTP status, as the Connect protocol maps it. REST uses the same.
    pub fn http_status(self) -> u16 {
        match self {
            Code::Canceled => 499,
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
            Code::DeadlineExceeded => 504,
            Code::NotFound => 404,
            Code::AlreadyExists | Code::Aborted => 409,
            Code::PermissionDenied => 403,
            Code::ResourceExhausted => 429,
            Code::Unimplemented => 501,
            Code::Unknown | Code::Internal | Code::DataLoss => 500,
            Code::Unavailable => 503,
            Code::Unauthenticated => 401,
        }
    }
}

/// A failure in Connect's dialect: a unary error body, or the `error` member
/// of an end-of-stream message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// Why.
    pub code: Code,
    /// What was wrong, in words the caller can act on.
    pub message: String,
}

impl ConnectError {
    /// An error from its parts.
    pub fn new(code: Code, message: impl Into<String>) -> ConnectError {
        ConnectError { code, message: message.into() }
    }

    /// The body of a failed unary call.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Body<'a> {
            code: &'a str,
            message: &'a str,
        }
        let body = Body { code: self.code.name(), message: &self.message };
        serde_json::to_string(&body).unwrap_or_else(|_| r#"{"code":"internal"}"#.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, ConnectError};

    #[test]
    fn every_code_reads_back_from_its_name() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.name()), Some(code));
        }
        assert_eq!(Code::parse("NotFound"), None);
    }

    #[test]
    fn a_unary_error_body_has_golden_bytes() {
        let error = ConnectError::new(Code::NotFound, "process with pid 7 not found");
        assert_eq!(
            error.to_json(),
            r#"{"code":"not_found","message":"process with pid 7 not found"}"#
        );
    }
}
