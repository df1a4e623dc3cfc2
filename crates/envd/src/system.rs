//! What no safe interface offers: what happens between fork and exec, what envd
//! does to itself before it serves, and giving memory back. All unsafe code of
//! this crate is here.
#![expect(
    unsafe_code,
    reason = "pre_exec, inherited descriptors, signal dispositions and malloc need it"
)]

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
};

use nix::{
    libc,
    sys::signal::{SigHandler, SigSet, Signal, signal},
    unistd::{Gid, Uid, setgid, setgroups, setuid},
};
use rustix::process::{Resource, Rlimit, chdir, ioctl_tiocsctty, setrlimit, setsid};

use crate::users::Switch;

/// Whether a new process gets a controlling terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// No terminal.
    None,
    /// Its standard input is the terminal.
    Stdin,
}

/// What a new process does to itself before it becomes the command.
pub(crate) struct ChildSetup {
    terminal: Terminal,
    /// Open for as long as we serve.
    groups: Vec<RawFd>,
    descriptors: Rlimit,
    ids: Option<Ids>,
    directory: CString,
}

struct Ids {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl ChildSetup {
    /// Prepares everything that allocates: after the fork nothing may.
    pub(crate) fn new(
        terminal: Terminal,
        groups: &[OwnedFd],
        descriptors: Rlimit,
        switch: Option<&Switch>,
        directory: CString,
    ) -> ChildSetup {
        let ids = switch.map(|switch| Ids {
            uid: Uid::from_raw(switch.uid),
            gid: Gid::from_raw(switch.gid),
            groups: switch.groups.iter().copied().map(Gid::from_raw).collect(),
        });
        let groups = groups.iter().map(AsRawFd::as_raw_fd).collect();
        ChildSetup { terminal, groups, descriptors, ids, directory }
    }

    /// Makes the command do this when it is started. The standard library has
    /// emptied its signal mask and reset SIGPIPE by then.
    pub(crate) fn install(self, command: &mut Command) {
        // SAFETY: the closure makes system calls only. It neither allocates
        // nor takes a lock, and the memory it reads was made before the fork.
        unsafe { command.pre_exec(move || self.apply()) };
    }

    /// The working directory is entered last, with the user's own rights.
    fn apply(&self) -> io::Result<()> {
        setsid()?;
        for group in &self.groups {
            // SAFETY: the daemon holds it open for as long as it starts commands.
            let group = unsafe { BorrowedFd::borrow_raw(*group) };
            // Zero stands for the writer itself; see cgroups(7).
            rustix::io::write(group, b"0")?;
        }
        if self.terminal == Terminal::Stdin {
            ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        setrlimit(Resource::Nofile, self.descriptors)?;
        if let Some(ids) = &self.ids {
            setgroups(&ids.groups)?;
            setgid(ids.gid)?;
            setuid(ids.uid)?;
        }
        chdir(self.directory.as_c_str())?;
        Ok(())
    }
}

/// Takes over an inherited descriptor and moves it out of the range of the
/// standard ones; the old number then means `/dev/null` or nothing.
pub(crate) fn adopt(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: asks about the number only; a closed one is an error.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, the command line gives it to us, and nothing in this
    // program has used it yet.
    let inherited = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let moved = rustix::io::fcntl_dupfd_cloexec(&inherited, 3)?;
    if descriptor == libc::STDOUT_FILENO {
        // The standard library relies on 0 to 2 being open.
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(&null)?;
        std::mem::forget(inherited);
    }
    Ok(moved)
}

/// Marks every descriptor but the standard ones as not for commands.
pub(crate) fn close_descriptors_on_exec() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // No descriptor is higher, and gVisor takes the number for a signed one.
    let last = libc::c_int::MAX as libc::c_uint;
    // SAFETY: sets a flag on descriptors and closes none.
    match unsafe { libc::close_range(3, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Undoes what our parent ignored or blocked, for us and for every command.
/// SIGPIPE stays ignored here; the standard library resets it for commands.
pub(crate) fn reset_signals() -> io::Result<()> {
    for number in Signal::iterator() {
        if !matches!(number, Signal::SIGKILL | Signal::SIGSTOP | Signal::SIGPIPE) {
            // SAFETY: installs the default action, which runs no code of ours.
            unsafe { signal(number, SigHandler::SigDfl) }?;
        }
    }
    SigSet::empty().thread_set_mask()?;
    Ok(())
}

/// Gives memory that is not in use back to the system. The allocator keeps it
/// otherwise, and every sandbox would cost what its busiest moment did.
pub(crate) fn release_memory() {
    // SAFETY: takes a number and touches free memory only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
