//! The way into a command: its standard input or its terminal.

use std::{cell::RefCell, io, rc::Rc};

use tokio::{net::unix::pipe::Sender, sync::Mutex};
use wire::process::pty::Size;

use crate::pty;

/// Our end of a command's input.
pub(crate) struct Input {
    kind: Kind,
    sender: RefCell<Option<Rc<Sender>>>,
    /// One message at a time, so that two writers do not mix theirs.
    turn: Mutex<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    Pipe,
    Terminal,
}

/// Where a client wants its bytes to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Stdin,
    Pty,
}

/// Why input did not arrive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("process has no terminal: send to its stdin instead")]
    NoTerminal,
    #[error("process runs in a terminal: send to its pty instead")]
    IsTerminal,
    #[error("stdin is not open")]
    NotOpen,
    #[error("process closed its input")]
    ClosedByProcess,
    #[error("input could not be written: {0}")]
    Write(io::Error),
    #[error("a terminal's input cannot be closed: send the byte 0x04 to it instead")]
    CannotClose,
    #[error("terminal could not be resized: {0}")]
    Resize(io::Error),
}

impl Input {
    /// A command that reads nothing.
    pub(crate) fn none() -> Input {
        Input { kind: Kind::None, sender: RefCell::new(None), turn: Mutex::new(()) }
    }

    /// A pipe to its standard input.
    pub(crate) fn pipe(sender: Sender) -> Input {
        Input::open(Kind::Pipe, sender)
    }

    /// The terminal it runs in.
    pub(crate) fn terminal(sender: Sender) -> Input {
        Input::open(Kind::Terminal, sender)
    }

    fn open(kind: Kind, sender: Sender) -> Input {
        Input { kind, sender: RefCell::new(Some(Rc::new(sender))), turn: Mutex::new(()) }
    }

    /// Writes all of it, after those who came earlier.
    pub(crate) async fn write(&self, target: Target, bytes: &[u8]) -> Result<(), InputError> {
        match (self.kind, target) {
            (Kind::Terminal, Target::Stdin) => return Err(InputError::IsTerminal),
            (Kind::None | Kind::Pipe, Target::Pty) => return Err(InputError::NoTerminal),
            (Kind::None | Kind::Pipe, Target::Stdin) | (Kind::Terminal, Target::Pty) => {}
        }
        let _turn = self.turn.lock().await;
        // A close takes effect behind the message that is being written.
        let sender = self.sender.borrow().clone().ok_or(InputError::NotOpen)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            sender.writable().await.map_err(InputError::Write)?;
            match sender.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                Err(err) if closed_by_process(&err) => return Err(InputError::ClosedByProcess),
                Err(err) => return Err(InputError::Write(err)),
            }
        }
        Ok(())
    }

    /// Lets the command read the end of its input. Twice is fine.
    pub(crate) fn close(&self) -> Result<(), InputError> {
        match self.kind {
            Kind::Terminal => Err(InputError::CannotClose),
            Kind::None | Kind::Pipe => {
                self.release();
                Ok(())
            }
        }
    }

    /// Gives the descriptor up: the command is over.
    pub(crate) fn release(&self) {
        self.sender.take();
    }

    /// Resizes the terminal. For a command without one there is nothing to do.
    pub(crate) fn resize(&self, size: &Size) -> Result<(), InputError> {
        match (self.kind, &*self.sender.borrow()) {
            (Kind::Terminal, Some(sender)) => {
                pty::resize(&**sender, size).map_err(|err| InputError::Resize(err.into()))
            }
            (Kind::None | Kind::Pipe | Kind::Terminal, _) => Ok(()),
        }
    }
}

fn closed_by_process(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::BrokenPipe
        || err.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
