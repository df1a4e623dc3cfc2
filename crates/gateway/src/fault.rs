//! Where errors of the rooms behind become answers.

use http_kit::Fault;
use sandbox::{BadTimeout, CreateError, EnvdError, TemplateError};
use wire::Code;

/// A failure to make a sandbox.
pub(crate) fn of_create(err: CreateError) -> Fault {
    // No `_` arm: a new variant has to choose its code here.
    let code = match &err {
        CreateError::NoTemplate(_) | CreateError::Template(TemplateError::Unknown(_)) => {
            Code::NotFound
        }
        CreateError::Template(TemplateError::Name(_)) => Code::InvalidArgument,
        CreateError::Template(_) => Code::Internal,
        CreateError::Full { .. } => Code::ResourceExhausted,
        CreateError::Closing | CreateError::Silent { .. } => Code::Unavailable,
        CreateError::Walls { .. } | CreateError::Store { .. } | CreateError::Interrupted => {
            Code::Internal
        }
    };
    Fault::new(code, err.to_string()).caused_by(err)
}

/// A number of seconds that is no lifetime.
pub(crate) fn of_timeout(err: BadTimeout) -> Fault {
    Fault::new(Code::InvalidArgument, err.to_string())
}

/// A sandbox that does not answer.
pub(crate) fn of_envd(err: EnvdError) -> Fault {
    Fault::new(Code::Unavailable, err.to_string()).caused_by(err)
}
