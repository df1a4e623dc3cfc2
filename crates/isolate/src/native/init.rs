//! From a copy of the keeper to the sandbox's init: the steps between clone and
//! execute, in the order that makes each one count.
//!
//! ```text
//! groups ─► loopback ─► file tree ─► host name ─► users ─► seccomp ─► capabilities ─► execute
//! ╰──────────── as the host's root ─────────────╯ ╰──────── as the sandbox's root ─────────╯
//! ```
//!
//! Without root the users come first, and all is done as the sandbox's root.

use std::{ffi::CString, io, os::fd::OwnedFd};

use nix::sched::CloneFlags;
use rustix::{
    fs::{Mode, OFlags},
    process::{Resource, Rlimit, Signal, getrlimit, setrlimit},
};

use super::{
    capabilities,
    cgroup::Cgroup,
    clone,
    disk::Disk,
    loopback,
    mount::Detached,
    root, seccomp,
    spec::{Defence, Privilege, Spec},
    users::Users,
};

/// What init inherits.
pub(super) struct Inheritance {
    /// Ends when the keeper does.
    pub(super) leash: OwnedFd,
    /// The socket it serves on; becomes descriptor 3.
    pub(super) listener: OwnedFd,
    /// The ways into its commands' groups; become 4 and higher.
    pub(super) groups: Vec<OwnedFd>,
}

/// A step that failed, by name.
pub(super) struct Failed {
    pub(super) step: &'static str,
    pub(super) cause: io::Error,
}

/// Goes all the way. Returns only if it failed.
pub(super) fn become_init(
    spec: &Spec,
    disk: &Disk,
    users: &Users,
    cgroup: &Cgroup,
    inheritance: Inheritance,
) -> Failed {
    match walk(spec, disk, users, cgroup, inheritance) {
        Ok(never) => match never {},
        Err(failed) => failed,
    }
}

fn walk(
    spec: &Spec,
    disk: &Disk,
    users: &Users,
    cgroup: &Cgroup,
    inheritance: Inheritance,
) -> Result<std::convert::Infallible, Failed> {
    step("become the one user it has", || users.begin())?;
    step("join its cgroups", || cgroup.join())?;
    step("leave the host's cgroup view", || Ok(nix::sched::unshare(CloneFlags::CLONE_NEWCGROUP)?))?;
    if spec.has(Defence::OwnKeys) {
        step("leave the host's keys", clone::own_keys)?;
    }
    if spec.has(Defence::OwnNetwork) {
        step("bring its loopback up", loopback::up)?;
    }
    // Taken before the tree changes: the program has no name inside.
    let program = step("take its program", || {
        let program = Detached::copy_of(&spec.program)?;
        users.show(&program)?;
        clone::aside(program)
    })?;
    let filter =
        step("compile its system call filter", || seccomp::program().map_err(io::Error::other))?;
    step("build its file tree", || root::enter(spec, disk, users))?;
    step("name itself", || Ok(rustix::system::sethostname(spec.id.as_bytes())?))?;
    step("arrange its descriptors", || arrange(inheritance))?;
    step("become its own root", || users.settle(spec))?;
    step("limit what it may ask for", || {
        rustix::process::umask(Mode::from_raw_mode(0o022));
        limit_resources(spec)
    })?;
    // Before the capabilities: without no_new_privs, which sudo could not live
    // with, loading a filter takes the sandbox's own CAP_SYS_ADMIN.
    if spec.has(Defence::Seccomp) {
        step("load its system call filter", || seccomp::load(&filter))?;
    }
    if spec.has(Defence::Capabilities) {
        step("give up capabilities", capabilities::restrict)?;
    }
    // The leash asks init to end; this does not ask. Last, as every change of
    // ids or capabilities takes it back.
    step("be tied to its keeper", || {
        Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
    })?;
    let arguments: Result<Vec<_>, _> =
        spec.arguments.iter().map(|argument| CString::new(argument.as_bytes())).collect();
    step("execute its program", || {
        let arguments = arguments.map_err(io::Error::other)?;
        Err(clone::execute(&program, &arguments))
    })
}

fn step<T>(step: &'static str, work: impl FnOnce() -> io::Result<T>) -> Result<T, Failed> {
    work().map_err(|cause| Failed { step, cause })
}

/// Puts descriptors where init looks for them; everything else closes when it
/// is executed. All are copied aside first, and their old numbers given up: a
/// number must not be closed by an old owner after it has its new meaning.
fn arrange(inheritance: Inheritance) -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())?;
    let standard = [inheritance.leash, null.try_clone()?, null];
    let extras = std::iter::once(inheritance.listener).chain(inheritance.groups);
    let aside: Vec<_> =
        standard.into_iter().chain(extras).map(clone::aside).collect::<io::Result<_>>()?;
    for (number, file) in (0..).zip(&aside) {
        clone::place(file, number)?;
    }
    Ok(())
}

fn limit_resources(spec: &Spec) -> io::Result<()> {
    match spec.privilege {
        // There is a cgroup for that.
        Privilege::Root => {}
        // The kernel counts them for each user of each user namespace, so those
        // of other sandboxes do not count. Nothing else that is limited for a
        // process would be for a sandbox.
        Privilege::User => {
            let wanted = u64::from(spec.limits.processes);
            // Nobody but the host's root raises what the user was given.
            let given = getrlimit(Resource::Nproc).maximum;
            let most = Some(given.map_or(wanted, |given| given.min(wanted)));
            setrlimit(Resource::Nproc, Rlimit { current: most, maximum: most })?;
        }
    }
    let files = getrlimit(Resource::Nofile);
    let soft = files.maximum.map(|maximum| maximum.min(1024));
    setrlimit(Resource::Nofile, Rlimit { current: soft, maximum: files.maximum })?;
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}
