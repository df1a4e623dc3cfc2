//! The system calls a sandbox may make.
//!
//! Docker's default list for a container without added capabilities is the
//! start; where this one differs, the rule says why. `allowed` lists the calls
//! that are free, `conditional` those that depend on their arguments, and
//! `calls` makes one filter of both. There are four ways to be refused:
//!
//! ```text
//! EPERM          calls that are not listed, or not with these arguments
//! ENOSYS         calls newer than the list, and a few with a second way (`calls`)
//! EAFNOSUPPORT   sockets of families that a sandbox has not
//! SIGSYS         calls of another architecture, 32-bit ones too
//! ```
//!
//! A second filter is stacked on the first for the third answer. The kernel
//! runs both, takes the hardest answer, and among equals the one of the filter
//! loaded last (seccomp(2)). It remembers which calls are allowed whatever
//! their arguments, so those cost nothing. A filter is never taken off: what
//! runs in the sandbox can only add to it.

mod allowed;
mod calls;
mod conditional;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, env::consts::ARCH, io};

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch,
};

/// For each system call the rules of which one has to match.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// The filters, compiled, in the order in which they are loaded.
pub(crate) struct Program([BpfProgram; 2]);

/// The filters could not be compiled.
#[derive(Debug, thiserror::Error)]
#[error("cannot compile the system call filter")]
pub(crate) struct CompileError(#[from] BackendError);

/// Compiles the filters. The result serves any number of sandboxes.
pub(crate) fn program() -> Result<Program, CompileError> {
    let no_family = SeccompAction::Errno(libc::EAFNOSUPPORT as u32);
    let families = compile(conditional::absent_families()?, no_family, SeccompAction::Allow)?;
    Ok(Program([calls::filter()?, families]))
}

/// Loads the filters into the calling thread, for good.
///
/// `no_new_privs` stays as it is, so that `sudo` works inside; the price is
/// that the caller needs `CAP_SYS_ADMIN` in its user namespace. So this comes
/// after the last mount and before capabilities are dropped. Allocates nothing,
/// and so may be called between fork and exec.
pub(crate) fn load(program: &Program) -> io::Result<()> {
    program.0.iter().try_for_each(attach)
}

/// A filter that also kills at the first call of another architecture.
fn compile(
    rules: Rules,
    on_match: SeccompAction,
    otherwise: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let target = TargetArch::try_from(ARCH)?;
    SeccompFilter::new(rules, otherwise, on_match, target)?.try_into()
}

fn attach(filter: &BpfProgram) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the pointer and the length describe `filter`, which outlives the
    // call; the kernel copies it and writes nothing. seccompiler's instruction
    // has the layout of the kernel's.
    #[expect(unsafe_code, reason = "no safe wrapper loads a filter without no_new_privs")]
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
