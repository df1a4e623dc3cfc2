//! Where errors of the rooms behind become answers.

use http_kit::Fault;
use sandbox::{BadTimeout, CreateError, NetworkError, ProcessError, TemplateError};
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
        CreateError::Network(err) => network_code(err),
        CreateError::Full { .. } | CreateError::DiskFull { .. } => Code::ResourceExhausted,
        CreateError::Closing | CreateError::Silent { .. } => Code::Unavailable,
        CreateError::Walls { .. } | CreateError::Store { .. } | CreateError::Interrupted => {
            Code::Internal
        }
    };
    Fault::new(code, err.to_string()).caused_by(err)
}

/// A network that a sandbox does not get.
pub(crate) fn of_network(err: NetworkError) -> Fault {
    Fault::new(network_code(&err), err.to_string()).caused_by(err)
}

fn network_code(err: &NetworkError) -> Code {
    match err {
        NetworkError::Unlimited | NetworkError::NotCarried { .. } => Code::InvalidArgument,
        NetworkError::Over => Code::NotFound,
        NetworkError::Walls(_) | NetworkError::Store(_) => Code::Internal,
    }
}

/// A number of seconds that is no lifetime.
pub(crate) fn of_timeout(err: BadTimeout) -> Fault {
    Fault::new(Code::InvalidArgument, err.to_string())
}

/// A command that envd does not start, join or signal.
pub(crate) fn of_process(err: ProcessError) -> Fault {
    let code = match &err {
        ProcessError::Envd(_) => Code::Unavailable,
        ProcessError::Refused { code, .. } => *code,
        ProcessError::Malformed(_) => Code::Internal,
    };
    Fault::new(code, err.to_string()).caused_by(err)
}
