//! The one place where this crate's errors become codes on the wire.

use std::io;

use rustix::io::Errno;
use wire::{Code, ConnectError};

use crate::{
    environment::EnvironmentError, input::InputError, spawn::SpawnError, table::FindError,
    users::IdentityError,
};

/// An error with the code that clients see.
pub(crate) trait Fault: std::error::Error {
    /// Its code.
    fn code(&self) -> Code;

    /// The error as an answer.
    fn answer(&self) -> ConnectError {
        ConnectError::new(self.code(), self.to_string())
    }
}

impl Fault for IdentityError {
    fn code(&self) -> Code {
        match self {
            IdentityError::Unknown(_) => Code::Unauthenticated,
            IdentityError::NotRoot(_) => Code::PermissionDenied,
        }
    }
}

impl Fault for EnvironmentError {
    fn code(&self) -> Code {
        match self {
            EnvironmentError::NoCommand
            | EnvironmentError::Nul
            | EnvironmentError::VariableName(_)
            | EnvironmentError::NoDirectory(_)
            | EnvironmentError::NotDirectory(_)
            | EnvironmentError::NotInPath(_)
            | EnvironmentError::NotExecutable { .. } => Code::InvalidArgument,
        }
    }
}

impl Fault for SpawnError {
    fn code(&self) -> Code {
        match self {
            SpawnError::Nul => Code::InvalidArgument,
            SpawnError::Wiring(source) if is_shortage(source) => Code::ResourceExhausted,
            SpawnError::Wiring(_) => Code::Internal,
            SpawnError::Start { source, .. } if is_shortage(source) => Code::ResourceExhausted,
            // What is left is about the file or the arguments.
            SpawnError::Start { .. } => Code::InvalidArgument,
        }
    }
}

impl Fault for FindError {
    fn code(&self) -> Code {
        match self {
            FindError::Pid(_) | FindError::Tag(_) => Code::NotFound,
            FindError::Unnamed => Code::InvalidArgument,
        }
    }
}

impl Fault for InputError {
    fn code(&self) -> Code {
        match self {
            InputError::NoTerminal | InputError::IsTerminal | InputError::CannotClose => {
                Code::FailedPrecondition
            }
            // As E2B answers; its clients know no better code for these.
            InputError::NotOpen | InputError::ClosedByProcess | InputError::Write(_) => {
                Code::Internal
            }
            InputError::Resize(_) => Code::Internal,
        }
    }
}

/// Whether the system ran out of processes, descriptors or memory.
fn is_shortage(err: &io::Error) -> bool {
    let shortages = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC];
    shortages.iter().any(|errno| err.raw_os_error() == Some(errno.raw_os_error()))
}
