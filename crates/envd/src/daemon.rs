//! The daemon as a whole: what its parts share, and its life from the first
//! system call to the last.

use std::{
    cell::RefCell,
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixListener as StdListener,
    },
    path::PathBuf,
    rc::Rc,
    time::Duration,
};

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getpid, getrlimit, set_child_subreaper,
    set_dumpable_behavior, setrlimit,
};
use tokio::{
    net::{
        UnixListener,
        unix::pipe::{Receiver, Sender},
    },
    signal::unix::{SignalKind, signal},
    task::LocalSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use wire::{CommandReason, ControlMessage, Init, Outcome};

use crate::{
    Identities, Listen, Options,
    command::Command,
    control::{Control, Ticket},
    exit::Exit,
    link::Link,
    memory::MemoryKills,
    output::Budget,
    reaper, server, spawn, system,
    table::Table,
    teardown::{self, LeftOver},
    tunnel,
};

/// How long a client waits for the host to have been told what it is told next.
const HOST_PATIENCE: Duration = Duration::from_millis(50);
/// Descriptors we want for ourselves: a command takes three, a stream one.
const DESCRIPTORS: u64 = 1 << 16;

/// Why the daemon cannot serve, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The descriptor of `--listen-fd` is not what it should be.
    #[error("descriptor {descriptor} is not a listening socket")]
    Listener {
        /// Its number.
        descriptor: i32,
        /// What the system said, if it was asked.
        #[source]
        source: Option<io::Error>,
    },
    /// Standard input cannot be waited for.
    #[error("standard input must be a pipe or a socket that the host holds open")]
    Leash(#[source] io::Error),
    /// Something every Linux can do failed.
    #[error("the daemon could not be set up")]
    Setup(#[source] io::Error),
    /// Processes of the sandbox that could not be killed.
    #[error("{0} processes could not be killed")]
    LeftOver(usize),
}

/// What all parts share.
pub(crate) struct Daemon {
    /// Home of commands that run as our own user.
    pub(crate) home: Option<PathBuf>,
    /// Who commands can be.
    pub(crate) identities: Identities,
    /// Put before every command.
    pub(crate) wrap: Vec<OsString>,
    /// The only variable of ours that commands get.
    pub(crate) path: Option<OsString>,
    /// Groups that every command joins.
    pub(crate) groups: Vec<OwnedFd>,
    /// The limit on descriptors that commands start with.
    pub(crate) descriptors: Rlimit,
    /// What every command starts with, as the host decided.
    pub(crate) claim: RefCell<Init>,
    pub(crate) table: Table,
    /// What memory ran out for.
    pub(crate) memory_kills: MemoryKills,
    /// What all commands' output together may keep.
    pub(crate) budget: Rc<Budget>,
    pub(crate) control: Control,
    pub(crate) link: Link,
    /// All tasks but those that end with `serve`.
    pub(crate) tasks: TaskTracker,
    /// Cuts every connection but the host's.
    pub(crate) cut: CancellationToken,
}

impl Daemon {
    /// Books a command as killed, once, without waiting for the host.
    pub(crate) fn book_killed(&self, command: &Command) -> Option<Ticket> {
        self.book(command, Outcome::Killed, None)
    }

    /// Books a command that has ended, if nobody has, and waits until the host
    /// has been told.
    pub(crate) async fn book_end(
        &self,
        command: &Command,
        exit: Exit,
        reason: Option<CommandReason>,
    ) {
        self.told(self.book(command, exit.outcome(), reason)).await;
    }

    fn book(
        &self,
        command: &Command,
        outcome: Outcome,
        reason: Option<CommandReason>,
    ) -> Option<Ticket> {
        if !self.table.book(command, outcome) {
            return None;
        }
        let exit_code = command.exit().map(|exit| exit.code());
        let pid = command.wire_pid();
        Some(self.control.event(&ControlMessage::End { pid, outcome, exit_code, reason }))
    }

    /// Waits until the host has been told, if there is something to tell.
    pub(crate) async fn told(&self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.control.written(ticket, HOST_PATIENCE).await;
        }
    }

    /// Tells the host that a command runs, and waits until it has been told.
    pub(crate) async fn announce(&self, command: &Command) {
        let ticket = self.control.event(&ControlMessage::Start(command.started()));
        self.told(Some(ticket)).await;
    }
}

/// Serves until the host is gone or asks for the end.
pub fn run(options: Options) -> Result<(), DaemonError> {
    system::reset_signals().map_err(DaemonError::Setup)?;
    let entrance = Entrance::open(options.listen)?;
    let groups = options.groups.iter().map(|descriptor| system::adopt(*descriptor));
    let groups = groups.collect::<io::Result<Vec<_>>>().map_err(DaemonError::Setup)?;
    let memory = options.memory.map(system::adopt).transpose().map_err(DaemonError::Setup)?;
    system::close_descriptors_on_exec().map_err(DaemonError::Setup)?;
    // Commands may be run by our own user; they have no business in our memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|err| DaemonError::Setup(err.into()))?;
    // Whatever a command leaves behind comes back to us, and can be killed.
    set_child_subreaper(Some(getpid())).map_err(|err| DaemonError::Setup(err.into()))?;
    let descriptors = getrlimit(Resource::Nofile);
    let wanted = descriptors.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    let wanted = descriptors.current.map(|current| current.max(wanted));
    // The old limit serves too, only for fewer commands at once.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: descriptors.maximum });
    let daemon = Rc::new(Daemon {
        home: options.home,
        identities: options.identities,
        wrap: options.wrap,
        groups,
        path: std::env::var_os("PATH"),
        descriptors,
        claim: RefCell::default(),
        table: Table::default(),
        memory_kills: MemoryKills::new(memory),
        budget: Rc::default(),
        control: Control::new(),
        link: Link::default(),
        tasks: TaskTracker::new(),
        cut: CancellationToken::new(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(DaemonError::Setup)?;
    LocalSet::new().block_on(&runtime, serve(daemon, entrance))
}

/// Where connections come from.
enum Entrance {
    Listener(StdListener),
    Tunnel,
}

impl Entrance {
    fn open(listen: Listen) -> Result<Entrance, DaemonError> {
        match listen {
            Listen::Descriptor(number) => Ok(Entrance::Listener(listener(number)?)),
            Listen::Tunnel => Ok(Entrance::Tunnel),
        }
    }

    /// Serves every connection until the host is gone.
    async fn serve(self, daemon: &Rc<Daemon>) -> Result<(), DaemonError> {
        let leash = leash().map_err(DaemonError::Leash)?;
        match self {
            Entrance::Listener(listener) => {
                let listener = UnixListener::from_std(listener).map_err(DaemonError::Setup)?;
                tokio::select! {
                    () = server::accept(daemon, listener) => {}
                    () = held(leash) => {}
                }
            }
            Entrance::Tunnel => {
                let output = standard(rustix::stdio::stdout()).map_err(DaemonError::Leash)?;
                let output = Sender::from_owned_fd_unchecked(output).map_err(DaemonError::Leash)?;
                tunnel::serve(daemon, leash, output).await;
            }
        }
        Ok(())
    }
}

async fn serve(daemon: Rc<Daemon>, entrance: Entrance) -> Result<(), DaemonError> {
    let mut children = signal(SignalKind::child()).map_err(DaemonError::Setup)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::Setup)?;
    // The entrance closes with the first of these that is ready.
    tokio::select! {
        served = entrance.serve(&daemon) => served?,
        () = reaper::reap(&daemon.table, &mut children) => {}
        () = daemon.table.expire() => {}
        _ = terminate.recv() => {}
    }
    teardown::teardown(&daemon, &mut children)
        .await
        .map_err(|LeftOver { processes }| DaemonError::LeftOver(processes))
}

fn listener(descriptor: i32) -> Result<StdListener, DaemonError> {
    let refused = |source| DaemonError::Listener { descriptor, source };
    let socket = system::adopt(descriptor).map_err(|err| refused(Some(err)))?;
    match rustix::net::sockopt::socket_acceptconn(&socket) {
        Ok(true) => {}
        Ok(false) => return Err(refused(None)),
        Err(err) => return Err(refused(Some(err.into()))),
    }
    let listener = StdListener::from(socket);
    listener.set_nonblocking(true).map_err(DaemonError::Setup)?;
    Ok(listener)
}

/// The host holds the other end of our standard input for as long as it lives.
fn leash() -> io::Result<Receiver> {
    Receiver::from_owned_fd_unchecked(standard(rustix::stdio::stdin())?)
}

/// A copy of a standard descriptor that can be waited for.
fn standard(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    let copy = rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?;
    spawn::set_nonblocking(&copy)?;
    Ok(copy)
}

/// Returns when the host is gone.
async fn held(leash: Receiver) {
    let mut ignored = [0; 64];
    while leash.readable().await.is_ok() {
        match leash.try_read(&mut ignored) {
            Ok(0) => return,
            Ok(_) => {}
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
