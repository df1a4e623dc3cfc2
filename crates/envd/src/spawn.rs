//! Starts one process: pipes or a terminal on our side, a session of its own on
//! the other.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsString},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::PathBuf,
    process::{Command, Stdio},
};

use nix::fcntl::{FcntlArg, fcntl};
use rustix::process::{Pid, Rlimit};
use tokio::net::unix::pipe::{Receiver, Sender};
use wire::{Stream, process::pty::Size};

use crate::{
    input::Input,
    pty,
    system::{self, ChildSetup},
    users::Switch,
};

/// Bytes a pipe of ours holds, where the system lets us have that many: fewer
/// switches between a busy command and us.
const PIPE_SIZE: i32 = 256 << 10;

/// What a command's standard descriptors are.
pub(crate) enum Wiring {
    /// Two pipes for output; standard input is `/dev/null`.
    Output,
    /// Three pipes.
    OutputAndInput,
    /// One terminal for all three.
    Terminal(Size),
}

/// Everything that decides how a process starts.
pub(crate) struct Plan {
    pub(crate) program: PathBuf,
    /// The name the program sees, and its arguments.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: BTreeMap<OsString, OsString>,
    pub(crate) directory: PathBuf,
    pub(crate) switch: Option<Switch>,
    pub(crate) wiring: Wiring,
    /// The limit on descriptors, which we raised for ourselves only.
    pub(crate) descriptors: Rlimit,
}

/// A started process and our ends of its pipes.
pub(crate) struct Spawned {
    pub(crate) pid: Pid,
    pub(crate) input: Input,
    pub(crate) sources: Vec<Source>,
}

/// An open end that output comes from.
pub(crate) struct Source {
    pub(crate) stream: Stream,
    pub(crate) receiver: Receiver,
}

/// Why a process did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("cmd, args, envs and cwd must not contain NUL")]
    Nul,
    #[error("no pipe or terminal could be made: {0}")]
    Wiring(#[source] io::Error),
    #[error("'{command}' could not be started in '{directory}': {source}")]
    Start { command: String, directory: String, source: io::Error },
}

impl Plan {
    /// Starts the process in these groups. It has been executed when this returns.
    pub(crate) fn spawn(self, groups: &[OwnedFd]) -> Result<Spawned, SpawnError> {
        let directory = CString::new(self.directory.as_os_str().as_bytes());
        let directory = directory.map_err(|_| SpawnError::Nul)?;
        let mut command = Command::new(&self.program);
        let mut arguments = self.arguments.iter();
        command.arg0(arguments.next().map_or(self.program.as_os_str(), |name| name));
        command.args(arguments).env_clear().envs(&self.variables);
        let wires = Wires::connect(&self.wiring, self.switch.as_ref(), &mut command);
        let wires = wires.map_err(SpawnError::Wiring)?;
        let terminal = match self.wiring {
            Wiring::Output | Wiring::OutputAndInput => system::Terminal::None,
            Wiring::Terminal(_) => system::Terminal::Stdin,
        };
        ChildSetup::new(terminal, groups, self.descriptors, self.switch.as_ref(), directory)
            .install(&mut command);
        let spawned = command.spawn().map_err(|source| {
            // The one error that no system call made.
            if source.raw_os_error().is_none() {
                return SpawnError::Nul;
            }
            let command = self.program.display().to_string();
            let directory = self.directory.display().to_string();
            SpawnError::Start { command, directory, source }
        })?;
        // Dropping the child neither waits nor kills; the reaper waits for all.
        let pid = Pid::from_child(&spawned);
        Ok(Spawned { pid, input: wires.input, sources: wires.sources })
    }
}

/// Our ends. The command's ends are in the `Command` and close with it.
struct Wires {
    input: Input,
    sources: Vec<Source>,
}

impl Wires {
    fn connect(
        wiring: &Wiring,
        switch: Option<&Switch>,
        command: &mut Command,
    ) -> io::Result<Wires> {
        if let Wiring::Terminal(size) = wiring {
            let terminal = pty::open(size, switch)?;
            command.stdin(terminal.slave.try_clone()?);
            command.stdout(terminal.slave.try_clone()?);
            command.stderr(terminal.slave);
            let input = Input::terminal(sender(terminal.master.try_clone()?)?);
            let sources = vec![source(Stream::Pty, terminal.master)?];
            return Ok(Wires { input, sources });
        }
        let input = if matches!(wiring, Wiring::OutputAndInput) {
            let (theirs, ours) = io::pipe()?;
            command.stdin(theirs);
            Input::pipe(sender(ours.into())?)
        } else {
            command.stdin(Stdio::null());
            Input::none()
        };
        let mut sources = Vec::with_capacity(2);
        for stream in [Stream::Stdout, Stream::Stderr] {
            let (ours, theirs) = io::pipe()?;
            // Refused once a user's pipes hold too much; the usual size does too.
            let _ = fcntl(&ours, FcntlArg::F_SETPIPE_SZ(PIPE_SIZE));
            if stream == Stream::Stdout {
                command.stdout(theirs)
            } else {
                command.stderr(theirs)
            };
            sources.push(source(stream, ours.into())?);
        }
        Ok(Wires { input, sources })
    }
}

/// tokio's pipe types serve terminals too: all they need is readiness.
fn source(stream: Stream, end: OwnedFd) -> io::Result<Source> {
    set_nonblocking(&end)?;
    Ok(Source { stream, receiver: Receiver::from_owned_fd_unchecked(end)? })
}

fn sender(end: OwnedFd) -> io::Result<Sender> {
    set_nonblocking(&end)?;
    Sender::from_owned_fd_unchecked(end)
}

/// The command's end is another open file, and keeps blocking.
pub(crate) fn set_nonblocking(end: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&end)?;
    rustix::fs::fcntl_setfl(&end, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(())
}
