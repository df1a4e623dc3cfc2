//! Who a sandbox's users are on the host: 65,536 ids that belong to nobody else,
//! or without root the one id of the user who serves.

use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{Gid, Mode, OFlags, Uid},
    process::{
        DumpableBehavior, Signal, WaitId, WaitIdOptions, getegid, geteuid, pidfd_send_signal,
        set_dumpable_behavior, set_parent_process_death_signal, waitid,
    },
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use super::{
    clone::{Split, USERS, aside, clone},
    mount::Detached,
    spec::{Defence, Privilege, Spec},
};

/// How many ids a sandbox has.
pub(super) const COUNT: u32 = 65_536;

/// The users of one sandbox.
pub(super) enum Users {
    /// All in a namespace that init moves into when the walls stand.
    Own(OwnedFd),
    /// One, of the namespace that init is born into.
    One {
        /// On the host.
        uid: Uid,
        /// On the host.
        gid: Gid,
    },
}

impl Users {
    /// What a sandbox is to have.
    pub(super) fn of(spec: &Spec) -> io::Result<Users> {
        match spec.privilege {
            Privilege::Root => Ok(Users::Own(aside(namespace(spec.first_id)?)?)),
            Privilege::User => Ok(Users::of_keeper()),
        }
    }

    /// The user that this process is.
    pub(super) fn of_keeper() -> Users {
        Users::One { uid: geteuid(), gid: getegid() }
    }

    /// Before the walls: a process that was born into a user namespace becomes
    /// its root, which it takes to build anything.
    pub(super) fn begin(&self) -> io::Result<()> {
        let Users::One { uid, gid } = self else { return Ok(()) };
        // Of a process that nobody may look into, these files are the host's root's.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        // The kernel's condition for a user who maps a group. Those that the
        // server is in besides stay, with whatever they open.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {} 1\n", uid.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("0 {} 1\n", gid.as_raw()))?;
        Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
    }

    /// Behind the walls: the process becomes the root of its own users, if it
    /// is not yet.
    pub(super) fn settle(&self, spec: &Spec) -> io::Result<()> {
        let Users::Own(namespace) = self else { return Ok(()) };
        if spec.has(Defence::OwnUsers) {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        let (uid, gid) = (Uid::ROOT, Gid::ROOT);
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
    }

    /// Makes a copy of a mount of the host into something to read. With ids of
    /// its own the sandbox sees the same owners inside as there are outside,
    /// with one id it sees its user's files as root's and all others as nobody's.
    pub(super) fn show(&self, copy: &Detached) -> io::Result<()> {
        match self {
            Users::Own(namespace) => copy.map_ids_read_only(namespace),
            Users::One { .. } => copy.read_only_without_devices(),
        }
    }
}

/// Makes a namespace. A child that does nothing holds it while it is set up;
/// the descriptor keeps it afterwards.
fn namespace(first_id: u32) -> io::Result<OwnedFd> {
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
