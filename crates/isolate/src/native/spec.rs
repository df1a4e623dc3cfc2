//! What the server asks a keeper for. Written by the server alone, into a
//! directory that no sandbox can reach, so it is trusted.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::link::Link;

/// One sandbox, as its keeper builds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The sandbox's name; also its host name and its cgroup's.
    pub(crate) id: String,
    /// The program on the host that becomes the sandbox's init. It must be static.
    pub(crate) program: PathBuf,
    /// Its arguments, the program's own name first.
    pub(crate) arguments: Vec<String>,
    /// Read-only directories that make up the root, the topmost first.
    pub(crate) layers: Vec<PathBuf>,
    /// The host's own `/usr` below these directories, for the `dev` template.
    pub(crate) host_usr: Option<HostUsr>,
    /// With whose power it is built. Orders of a former version are root's.
    #[serde(default)]
    pub(crate) privilege: Privilege,
    /// First of the 65,536 host ids that are the sandbox's own. Without root it
    /// is the user's own id, and the only one.
    pub(crate) first_id: u32,
    /// What it may use.
    pub(crate) limits: Limits,
    /// When it ends, whatever the server does, in Unix milliseconds.
    pub(crate) deadline_ms: u64,
    /// The blank image that its disk is a copy of. Without one it writes to the
    /// host's disk, and as much as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) blank: Option<PathBuf>,
    /// A copy is made already, and comes with the keeper's first connection.
    #[serde(default)]
    pub(crate) disk_follows: bool,
    /// Its way out, where sandboxes may have one. It is laid when it is ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<Link>,
    /// Walls that are left out: how a test shows what each of them holds back.
    /// The server writes none, and no flag or variable of it leads here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) without: Vec<Defence>,
}

impl Spec {
    /// Whether this wall is built, as each one is outside of tests.
    pub(crate) fn has(&self, defence: Defence) -> bool {
        !self.without.contains(&defence)
    }

    /// An id of the sandbox, as the process that builds its tree has to name it.
    /// Root builds as the host's, a user from within, where there is one id.
    pub(crate) fn id(&self, inside: u32) -> u32 {
        match self.privilege {
            Privilege::Root => self.first_id + inside,
            Privilege::User => 0,
        }
    }
}

/// With whose power walls are built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privilege {
    /// The host's root: ids of the sandbox's own, namespaces that belong to the
    /// host's users, and all limits.
    #[default]
    Root,
    /// An ordinary user: one id, namespaces that belong to the sandbox's own
    /// user namespace, and few limits.
    User,
}

impl Privilege {
    /// What this process has.
    pub fn of_process() -> Privilege {
        if rustix::process::geteuid().is_root() { Privilege::Root } else { Privilege::User }
    }
}

/// A wall that a sandbox can be built without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Defence {
    /// The system call filter.
    Seccomp,
    /// The cut of the capability sets.
    Capabilities,
    /// The user namespace: without it the sandbox's root is the host's.
    OwnUsers,
    /// The pid namespace.
    OwnProcesses,
    /// The network namespace.
    OwnNetwork,
    /// The rules inside its network namespace.
    EgressRules,
    /// The namespace of System V and POSIX messages.
    OwnMessages,
    /// The image that its disk is in.
    DiskLimit,
    /// A session keyring of its own.
    OwnKeys,
    /// Letting go of the host's tree after the change of root.
    OwnTree,
    /// Empty files over those of `/proc` that tell about the host.
    ProcMasks,
    /// `/sys` and the parts of `/proc` that may only be read.
    ReadOnlyKernel,
}

/// The host's `/usr`, seen through what lies over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUsr {
    /// Directories laid over it, the topmost first.
    pub over: Vec<PathBuf>,
}

/// What a sandbox may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processors.
    pub cpus: u32,
    /// Memory of its commands.
    pub memory_mib: u32,
    /// Processes and threads of its commands.
    pub processes: u32,
    /// Size of its disk; 0 is no limit but the host's.
    #[serde(default)]
    pub disk_mib: u32,
}

/// How a sandbox ended: the keeper's last words, in `exit.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// Why.
    pub(crate) cause: Cause,
    /// More about it, for the log.
    pub(crate) detail: String,
}

/// Why a sandbox ended, as far as its keeper can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The server asked for it.
    Asked,
    /// Its deadline passed.
    Deadline,
    /// Its init ended by itself.
    Exited,
    /// Its init was killed for memory.
    OutOfMemory,
    /// It never started.
    NotStarted,
}
