//! A user namespace with 65,536 ids that belong to no user of the host.

use std::{fs, io, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, OFlags},
    process::{
        Signal, WaitId, WaitIdOptions, pidfd_send_signal, set_parent_process_death_signal, waitid,
    },
};

use super::clone::{Split, USERS, clone};

/// How many ids a sandbox has.
pub(super) const COUNT: u32 = 65_536;

/// Makes the namespace. A child that does nothing holds it while it is set up;
/// the descriptor keeps it afterwards.
pub(super) fn namespace(first_id: u32) -> io::Result<OwnedFd> {
    let (pid, pidfd) = match clone(USERS)? {
        Split::Child => {
            // Killed by the parent, or by its death.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            loop {
                std::thread::park();
            }
        }
        Split::Parent(pid, pidfd) => (pid, pidfd),
    };
    let process = format!("/proc/{}", pid.as_raw_nonzero());
    let map = format!("0 {first_id} {COUNT}\n");
    let made = fs::write(format!("{process}/uid_map"), &map)
        .and_then(|()| fs::write(format!("{process}/gid_map"), &map))
        .and_then(|()| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            Ok(rustix::fs::open(format!("{process}/ns/user"), flags, Mode::empty())?)
        });
    pidfd_send_signal(&pidfd, Signal::KILL)?;
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)?;
    made
}
