//! Why a model gave no answer, and what the run says then.

use wire::run::ErrorCode;

use crate::failure::Failure;

/// Why a model gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelError {
    /// The wording is the seed's.
    #[error("Provider timed out after {}", seconds(*.limit_ms))]
    Timeout { limit_ms: u64 },
    #[error("{0}")]
    TokenBudget(String),
    #[error("the provider is not reachable: {0}")]
    Unreachable(String),
    #[error("the provider answered {status}: {message}")]
    Status { status: u16, message: String },
    #[error("the provider's answer broke off: {0}")]
    BrokenOff(String),
    #[error("the provider reported an error: {0}")]
    Reported(String),
    #[error(transparent)]
    BadAnswer(#[from] BadAnswer),
    #[error("the script has no round {0}")]
    ScriptEnded(usize),
}

/// What is wrong with an answer that came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadAnswer {
    #[error("the provider sent what is no JSON: {0}")]
    NoJson(String),
    #[error("the provider's event `{event}` has no usable `{field}`")]
    Field { event: String, field: &'static str },
    #[error("the provider sent an unknown kind of {what}: `{name}`")]
    Unknown { what: &'static str, name: String },
    #[error("the provider's answer is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the provider's answer calls more than {limit} tools")]
    TooManyCalls { limit: usize },
    #[error("the provider's answer ended without saying why")]
    NoStop,
    #[error("the provider stopped for tools and called none")]
    NoCalls,
    #[error("the provider's event stream is malformed: {0}")]
    Framing(String),
    #[error("the provider answered with `{0}` instead of an event stream")]
    NoStream(String),
    #[error("the model declined to answer")]
    Declined,
}

impl From<ModelError> for Failure {
    fn from(err: ModelError) -> Failure {
        let code = match &err {
            ModelError::Timeout { .. } => ErrorCode::ModelTimeout,
            ModelError::TokenBudget(_) => ErrorCode::TokenBudget,
            ModelError::Unreachable(_)
            | ModelError::Status { .. }
            | ModelError::BrokenOff(_)
            | ModelError::Reported(_)
            | ModelError::BadAnswer(_)
            | ModelError::ScriptEnded(_) => ErrorCode::ModelError,
        };
        Failure::new(code, err.to_string())
    }
}

/// `60s`; limits below a second or between two are said to the millisecond.
fn seconds(limit_ms: u64) -> String {
    if limit_ms.is_multiple_of(1000) {
        format!("{}s", limit_ms / 1000)
    } else {
        format!("{}.{:03}s", limit_ms / 1000, limit_ms % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::ModelError;

    #[test]
    fn a_timeout_names_its_limit() {
        let message = |limit_ms| ModelError::Timeout { limit_ms }.to_string();
        assert_eq!(message(60_000), "Provider timed out after 60s");
        assert_eq!(message(250), "Provider timed out after 0.250s");
    }
}
