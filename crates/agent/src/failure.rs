//! Why a run ends without an answer, in the words of its terminal event.

use std::error::Error;
use std::fmt;

use wire::run::{ErrorCode, Terminal};

/// The end of a run that has no final message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What kind of end it is.
    pub(crate) code: ErrorCode,
    /// What happened, in words for the caller.
    pub(crate) message: String,
}

impl Failure {
    /// Longest message, in bytes; what comes after is of no use to anybody.
    const MESSAGE_MAX: usize = 8 << 10;

    /// A failure with a message that fits into a terminal event.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        let mut message = message.into();
        if message.len() > Self::MESSAGE_MAX {
            message.truncate(message.floor_char_boundary(Self::MESSAGE_MAX));
            message.push('…');
        }
        Failure { code, message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl From<Failure> for Terminal {
    fn from(failure: Failure) -> Terminal {
        Terminal::Error { code: failure.code, message: failure.message }
    }
}

/// An error and what caused it, which its own words leave out.
pub(crate) fn with_cause(err: &dyn Error) -> String {
    match err.source() {
        Some(cause) => format!("{err}: {cause}"),
        None => err.to_string(),
    }
}
