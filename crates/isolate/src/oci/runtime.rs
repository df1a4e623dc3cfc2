//! The programs that build OCI containers, and how each is called.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nix::unistd::{AccessFlags, access};

use crate::{
    Error, Tier,
    native::cgroup::{Cgroup, Layout},
};

/// What gVisor is always called with.
///
/// - no groups: it moves itself between them, which takes as long as a fifth of
///   a start; it is in ours when it starts
/// - no network: host sockets inside would prevent checkpoints, and all
///   connections go through the tunnel
/// - systrap: the platform that needs neither KVM nor ptrace
/// - no direct file access: the kernel in user space then holds no descriptor
///   of the host's files with which to open others
/// - no Unix sockets of the host, whatever the file tree has
const RUNSC: [&str; 5] = [
    "--ignore-cgroups",
    "--network=none",
    "--platform=systrap",
    "--directfs=false",
    "--host-uds=none",
];

/// Joins the groups whose files come before `--` and becomes what comes after.
/// A shell has one thread, as joining wants it, and is on every host.
const JOIN: &str =
    r#"while [ "$1" != -- ]; do echo 0 > "$1" || exit 1; shift; done; shift; exec "$@""#;

/// Where root's programs are, besides PATH.
const PLACES: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// A program that builds containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// gVisor.
    Runsc,
    /// The reference runtime.
    Runc,
}

impl Runtime {
    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Runsc => "runsc",
            Runtime::Runc => "runc",
        }
    }

    /// The tier it makes.
    pub fn tier(self) -> Tier {
        match self {
            Runtime::Runsc => Tier::Gvisor,
            Runtime::Runc => Tier::Runc,
        }
    }

    fn need(self) -> &'static str {
        match self {
            Runtime::Runsc => "`runsc` in PATH; Debian has it in the package runsc",
            Runtime::Runc => "`runc` in PATH; Debian has it in the package runc",
        }
    }

    pub(super) fn find(self) -> Result<PathBuf, Error> {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path)
            .chain(PLACES.map(PathBuf::from))
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(self.name()))
            .find(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
            .ok_or(Error::Unavailable { tier: self.tier(), what: self.need() })
    }
}

/// A runtime that was found, with the directory where it keeps its books.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) runtime: Runtime,
    pub(super) program: PathBuf,
    pub(super) books: PathBuf,
    pub(super) layout: Layout,
}

impl Caller {
    /// `run` in the bundle of one sandbox.
    pub(super) fn run(&self, id: &str, bundle: &Path) -> Command {
        let mut command = self.in_bundle(id, bundle);
        command.arg("run").arg("--bundle").arg(bundle).arg(id);
        command
    }

    /// `restore` in the bundle of one sandbox.
    pub(super) fn restore(&self, id: &str, bundle: &Path, image: &Path) -> Command {
        let mut command = self.in_bundle(id, bundle);
        command.arg("restore").arg("--bundle").arg(bundle).arg("--image-path").arg(image).arg(id);
        command
    }

    /// `checkpoint`, after which the sandbox is over.
    pub(super) fn checkpoint(&self, id: &str, image: &Path) -> io::Result<Output> {
        let mut command = self.command(Command::new(&self.program));
        // Pages are stored as they are: a restore then takes no time to unpack.
        command.args(["checkpoint", "--compression=none", "--image-path"]).arg(image).arg(id);
        command.output()
    }

    /// `delete`, alive or not.
    pub(super) fn delete(&self, id: &str) -> io::Result<Output> {
        self.command(Command::new(&self.program)).args(["delete", "--force", id]).output()
    }

    /// Whether the runtime has the sandbox in its books.
    pub(super) fn knows(&self, id: &str) -> bool {
        let Ok(entries) = std::fs::read_dir(&self.books) else { return false };
        let mut names = entries.flatten().map(|entry| entry.file_name());
        match self.runtime {
            // Files named `<id>_sandbox:<id>.state` and `.lock`, and sockets.
            Runtime::Runsc => names.any(|name| name.to_string_lossy().contains(id)),
            Runtime::Runc => names.any(|name| name == id),
        }
    }

    /// The groups of a sandbox, where we make them.
    pub(super) fn groups(&self, id: &str) -> Option<Cgroup> {
        match self.runtime {
            Runtime::Runsc => Some(Cgroup::of(&self.layout, id)),
            // It makes its own.
            Runtime::Runc => None,
        }
    }

    fn in_bundle(&self, id: &str, bundle: &Path) -> Command {
        let Some(groups) = self.groups(id) else {
            return self.command(Command::new(&self.program));
        };
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", JOIN, "sh"]).args(groups.ways_in()).arg("--").arg(&self.program);
        let mut command = self.command(shell);
        // What the sandbox writes goes to a nameless file in its directory.
        let mut place = OsString::from("--overlay2=root:dir=");
        place.push(bundle);
        command.arg(place);
        command
    }

    fn command(&self, mut command: Command) -> Command {
        match self.runtime {
            Runtime::Runsc => command.args(RUNSC),
            Runtime::Runc => &mut command,
        };
        command.arg("--root").arg(&self.books).stdin(Stdio::null()).current_dir("/");
        command
    }
}
