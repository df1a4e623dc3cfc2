//! Why a run ended without an answer: a closed list, the same in every projection.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The `code` of a run's terminal error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The dispatch itself is wrong.
    BadRequest,
    /// A one-time token was used, late, unknown or of the wrong kind.
    OtpRejected,
    /// The agent could not fetch what it needs to begin.
    BootstrapFailed,
    /// The environment's setup script failed.
    SetupFailed,
    /// The files for the run could not be fetched, or were refused.
    AssetsRejected,
    /// The model's provider did not answer in time.
    ModelTimeout,
    /// The model's provider answered with an error.
    ModelError,
    /// The agent loop used up its rounds without a final message.
    MaxRounds,
    /// The run took longer than a run may.
    RuntimeExceeded,
    /// The run used up its token budget.
    TokenBudget,
    /// The sandbox died, or the server that watched it did.
    SandboxLost,
    /// The agent itself ran out of memory.
    OutOfMemory,
    /// The caller hung up or asked to stop.
    Cancelled,
    /// An invariant of ours is broken.
    Internal,
}

impl ErrorCode {
    /// Every code, for tables and tests.
    pub const ALL: [ErrorCode; 14] = [
        ErrorCode::BadRequest,
        ErrorCode::OtpRejected,
        ErrorCode::BootstrapFailed,
        ErrorCode::SetupFailed,
        ErrorCode::AssetsRejected,
        ErrorCode::ModelTimeout,
        ErrorCode::ModelError,
        ErrorCode::MaxRounds,
        ErrorCode::RuntimeExceeded,
        ErrorCode::TokenBudget,
        ErrorCode::SandboxLost,
        ErrorCode::OutOfMemory,
        ErrorCode::Cancelled,
        ErrorCode::Internal,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::BadRequest => "bad_request",
            ErrorCode::OtpRejected => "otp_rejected",
            ErrorCode::BootstrapFailed => "bootstrap_failed",
            ErrorCode::SetupFailed => "setup_failed",
            ErrorCode::AssetsRejected => "assets_rejected",
            ErrorCode::ModelTimeout => "model_timeout",
            ErrorCode::ModelError => "model_error",
            ErrorCode::MaxRounds => "max_rounds",
            ErrorCode::RuntimeExceeded => "runtime_exceeded",
            ErrorCode::TokenBudget => "token_budget",
            ErrorCode::SandboxLost => "sandbox_lost",
            ErrorCode::OutOfMemory => "out_of_memory",
            ErrorCode::Cancelled => "cancelled",
            ErrorCode::Internal => "internal",
        }
    }

    /// Reads a name from the wire; `None` for one that is not ours.
    pub fn parse(name: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.into_iter().find(|code| code.name() == name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn every_code_reads_back_from_its_name_and_its_json() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.name()), Some(code));
            let json = serde_json::to_string(&code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<ErrorCode>(&json).unwrap(), code);
        }
        assert_eq!(ErrorCode::parse("no_such_code"), None);
    }
}
