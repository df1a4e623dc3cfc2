//! What every tier can do: build walls around a program, find again what a
//! former server built, and take all of it down.

use std::{io, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::net::UnixStream;
use wire::SandboxId;

use crate::{Error, HostUsr, Limits, Network};

/// Runs sandboxes on one kind of host. Knows nothing of HTTP or of envd.
pub trait Walls: Send + Sync {
    /// Starts a program behind walls. On error nothing is left behind.
    fn build<'a>(&'a self, plan: Plan<'a>) -> BoxFuture<'a, Result<Arc<dyn Instance>, Error>>;

    /// Sandboxes of a former server: those that live, and how the others ended.
    /// What they left is removed.
    fn find(&self) -> BoxFuture<'_, Result<Vec<Found>, Error>>;

    /// Layers of the sandboxes that outlived a former server. Nobody may remove
    /// them; where they cannot be read, nobody may remove any.
    fn layers(&self) -> Result<Vec<PathBuf>, Error>;

    /// Whether sandboxes can be given a network, and have it taken away.
    fn carries_network(&self) -> bool;

    /// Prepares disks of this size. Says why, where disks cannot have a limit;
    /// plans must not ask for one then.
    fn limit_disks(&self, mib: u32) -> Result<(), Error>;

    /// Whether sandboxes outlive a server that is stopped.
    fn outlives_server(&self) -> bool;

    /// Returns when nothing of ours waits for a process any more. All sandboxes
    /// have ended by then, so what the host keeps for them goes too.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A running program behind walls.
pub trait Instance: Send + Sync {
    /// Opens a connection to the program.
    fn dial(&self) -> BoxFuture<'_, io::Result<UnixStream>>;

    /// Waits until it is over, whatever the cause.
    fn ended(&self) -> BoxFuture<'_, Ended>;

    /// Tells whoever guards it without us when it has to end.
    fn set_deadline(&self, unix_ms: u64) -> BoxFuture<'_, Result<(), Error>>;

    /// Changes what it reaches, as a whole: no connection meets half of a
    /// change. On error it reaches what it did before, or nothing. A tier that
    /// carries no network refuses every one by name.
    fn set_network<'a>(&'a self, network: &'a Network) -> BoxFuture<'a, Result<(), Error>>;

    /// Ends the program and all that descends from it, and removes its files.
    /// Calling it twice is not an error.
    fn kill(&self) -> BoxFuture<'_, Result<(), Error>>;
}

/// What to start.
pub struct Plan<'a> {
    /// The sandbox's name.
    pub id: &'a SandboxId,
    /// The program, on the host. Behind walls it must be static.
    pub program: &'a std::path::Path,
    /// Its arguments, which depend on what it is born with.
    pub arguments: &'a (dyn Fn(&Birth) -> Vec<String> + Send + Sync),
    /// The file tree, for tiers that have one of their own.
    pub root: Root,
    /// What it may use, for tiers that can limit it.
    pub limits: Limits,
    /// When it has to end, in Unix milliseconds.
    pub deadline_ms: u64,
}

/// A file tree: read-only layers, the topmost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The layers.
    pub layers: Vec<PathBuf>,
    /// The host's own `/usr` in it.
    pub host_usr: Option<HostUsr>,
}

/// What a program finds when it starts.
pub struct Birth {
    /// Where its connections come from.
    pub listen: Listen,
    /// Descriptors through which its commands join their cgroups.
    pub groups: Vec<i32>,
    /// A descriptor that counts which of its commands were killed for memory.
    pub memory: Option<i32>,
    /// Its home on the host, for the tier without a file tree of its own.
    pub home: Option<PathBuf>,
    /// Who its commands can be.
    pub identities: Identities,
}

/// Who a program's commands can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identities {
    /// Whoever the program may become.
    Many,
    /// The program's own user, by every name: there is no other id.
    One,
}

/// Where a program's connections come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A listening socket, by its descriptor.
    Descriptor(i32),
    /// A tunnel over its standard input and output, of which it is the
    /// accepting side. It ends with its input.
    Tunnel,
}

/// Why an instance is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked for.
    Killed,
    /// Its deadline passed while no server was there.
    Deadline,
    /// The program ended by itself.
    Exited,
    /// The program was killed for memory.
    OutOfMemory,
    /// Nobody knows.
    Lost,
}

/// A sandbox of a former server.
pub struct Found {
    /// Its name.
    pub id: SandboxId,
    /// Itself, if it lives.
    pub state: Result<Arc<dyn Instance>, Ended>,
}
