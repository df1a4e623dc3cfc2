//! Where errors of the rooms behind become answers.

use http_kit::Fault;
use sandbox::{CreateError, TemplateError};
use store::StoreError;
use wire::Code;

use crate::{fields::BadBody, starting::DispatchError};

/// A body that cannot be dispatched.
pub(crate) fn of_body(err: BadBody) -> Fault {
    Fault::new(Code::InvalidArgument, err.to_string())
}

/// A run that did not start.
pub(crate) fn of_dispatch(err: DispatchError) -> Fault {
    // No `_` arm: a new variant has to choose its code here.
    let code = match &err {
        DispatchError::Address { .. } | DispatchError::NoHarness(_) | DispatchError::Runtime(_) => {
            Code::InvalidArgument
        }
        DispatchError::Closing | DispatchError::NoAgent => Code::Unavailable,
        DispatchError::Sandbox(err) => of_create(err),
        DispatchError::Directory(_)
        | DispatchError::Log(_)
        | DispatchError::Store(_)
        | DispatchError::Interrupted => Code::Internal,
    };
    let is_template = matches!(
        &err,
        DispatchError::NoHarness(_)
            | DispatchError::Sandbox(CreateError::NoTemplate(_) | CreateError::Template(_))
    );
    let field = if is_template { "`template`: " } else { "" };
    Fault::new(code, format!("{field}{err}")).caused_by(err)
}

fn of_create(err: &CreateError) -> Code {
    match err {
        CreateError::NoTemplate(_)
        | CreateError::Template(TemplateError::Unknown(_) | TemplateError::Name(_)) => {
            Code::InvalidArgument
        }
        CreateError::Template(_) => Code::Internal,
        CreateError::Full { .. } | CreateError::DiskFull { .. } => Code::ResourceExhausted,
        CreateError::Closing | CreateError::Silent { .. } => Code::Unavailable,
        // No network is asked for, so none can be refused.
        CreateError::Network(_)
        | CreateError::Walls { .. }
        | CreateError::Store { .. }
        | CreateError::Interrupted => Code::Internal,
    }
}

/// A store that does not answer.
pub(crate) fn of_store(err: StoreError) -> Fault {
    Fault::new(Code::Internal, "the runs cannot be read").caused_by(err)
}
