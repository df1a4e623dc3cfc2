//! Processes in namespaces of their own.
//!
//! Only for a process with one thread: the child goes on as a copy of it.

#![expect(unsafe_code, reason = "clone3(2) has no safe wrapper")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

use rustix::process::Pid;

use super::spec::{Defence, Privilege, Spec};

/// Namespaces that a sandbox's init begins in. Made by root they belong to the
/// host's users, so the sandbox's root has no power over any of them. Made by a
/// user they belong to the sandbox's, and it is the filter and the cut of the
/// capabilities that leave its root none.
const BOX: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC) as u64;

/// The namespaces of this sandbox: `BOX`, less what a test leaves out. A user
/// needs a user namespace to make the others.
pub(super) fn namespaces(spec: &Spec) -> u64 {
    let optional = [
        (Defence::OwnProcesses, libc::CLONE_NEWPID),
        (Defence::OwnNetwork, libc::CLONE_NEWNET),
        (Defence::OwnMessages, libc::CLONE_NEWIPC),
    ];
    let all = match spec.privilege {
        Privilege::Root => BOX,
        Privilege::User => BOX_OF_USER,
    };
    let left_out = optional.iter().filter(|(defence, _)| !spec.has(*defence));
    left_out.fold(all, |namespaces, (_, flag)| namespaces & !(*flag as u64))
}

/// A user namespace alone.
pub(super) const USERS: u64 = libc::CLONE_NEWUSER as u64;
/// The namespaces of a sandbox that a user makes.
pub(super) const BOX_OF_USER: u64 = BOX | USERS;

/// Which side of the split this is.
pub(super) enum Split {
    /// The child, in the new namespaces.
    Child,
    /// The parent, with the child's pid and a descriptor of it.
    Parent(Pid, OwnedFd),
}

/// Like fork(2), into new namespaces.
pub(super) fn clone(namespaces: u64) -> io::Result<Split> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: clone_args is plain data, for which zeros are valid.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = namespaces | libc::CLONE_PIDFD as u64;
    arguments.pidfd = &raw mut pidfd as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM and with one thread this is fork(2): the child
    // has its own copy of everything and may go on as the parent does. The
    // arguments live until the call returns.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Split::Child),
        pid => {
            let pid = Pid::from_raw(pid as i32).ok_or_else(|| io::Error::other("no pid"))?;
            // SAFETY: the kernel has just made this descriptor for us alone.
            Ok(Split::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
        }
    }
}

/// Becomes the program behind `file`, which need not have a name in our tree.
pub(super) fn execute(file: &OwnedFd, arguments: &[std::ffi::CString]) -> io::Error {
    let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let environment = [std::ptr::null::<libc::c_char>()];
    // SAFETY: all strings end in NUL and both arrays in a null pointer, and all
    // of them live until the call returns, which it does only on failure.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file.as_raw_fd(),
            c"".as_ptr(),
            pointers.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}

/// Leaves the session's keys, which come from whoever started the server, for a
/// ring without any. A kernel without keys has none to leave.
pub(super) fn own_keys() -> io::Result<()> {
    let unnamed = std::ptr::null::<libc::c_char>();
    // SAFETY: without a name there is nothing that the kernel would read.
    match unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, unnamed) } {
        -1 => match io::Error::last_os_error() {
            err if err.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
            err => Err(err),
        },
        _ => Ok(()),
    }
}

/// Ends a child at once, without running what the parent registered for its exit.
pub(super) fn leave(status: i32) -> ! {
    // SAFETY: _exit never returns and touches no memory of ours.
    unsafe { libc::_exit(status) }
}

/// The same file under a number that no inherited descriptor needs.
pub(super) fn aside(file: impl AsFd) -> io::Result<OwnedFd> {
    const OUT_OF_THE_WAY: i32 = 64;
    Ok(rustix::io::fcntl_dupfd_cloexec(file, OUT_OF_THE_WAY)?)
}

/// Makes `number` a copy of `file` that survives execution.
pub(super) fn place(file: &OwnedFd, number: i32) -> io::Result<()> {
    // SAFETY: dup2 on descriptors; whoever owned `number` before has given it up.
    match unsafe { libc::dup2(file.as_raw_fd(), number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
