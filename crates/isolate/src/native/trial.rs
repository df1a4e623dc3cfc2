//! Whether this host lets an ordinary user build walls: tried, because no
//! setting tells. Namespaces may be forbidden (`kernel.unprivileged_userns_clone`,
//! `user.max_user_namespaces`), or be given without any power in them
//! (`kernel.apparmor_restrict_unprivileged_userns`, the profile of a container).
//!
//! The server asks a keeper, which has one thread and so can do it.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::{Mode, OFlags, mkdirat},
    mount::{MountAttrFlags, MountPropagationFlags, mount_change},
    process::{WaitId, WaitIdOptions, waitid},
};

use super::{
    clone::{self, Split},
    loopback,
    mount::{Changes, Detached},
    spec::Privilege,
    users::Users,
};
use crate::Error;

/// The keeper's argument that asks for a trial, in place of a directory.
const ARGUMENT: &str = "--try-without-root";

/// Whether a keeper that was started with this argument is to try.
pub fn is_trial(argument: &Path) -> bool {
    argument == Path::new(ARGUMENT)
}

/// Asks the keeper whether this user may build walls.
pub(super) fn ask(keeper: &Path) -> Result<(), Error> {
    let asked = Command::new(keeper).arg(ARGUMENT).env_clear().stdin(Stdio::null()).output();
    let failed = |source| Error::Spawn { program: keeper.to_owned(), source };
    let answer = asked.map_err(failed)?;
    if answer.status.success() {
        return Ok(());
    }
    Err(Error::NotWithoutRoot { detail: String::from_utf8_lossy(&answer.stderr).trim().to_owned() })
}

/// Makes the namespaces of a sandbox, and in them each thing that this takes and
/// a host may refuse. Nothing is left of it.
pub fn try_without_root() -> io::Result<()> {
    let users = Users::of_keeper();
    let (heard, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let made = clone::clone(clone::BOX_OF_USER);
    let pid = match made.map_err(|err| refused("make namespaces", &err))? {
        Split::Child => {
            let words = build(&users).err().map(|err| err.to_string()).unwrap_or_default();
            // With nobody to read it, nothing more can be said.
            let _ = fs::File::from(told).write_all(words.as_bytes());
            clone::leave(0)
        }
        Split::Parent(pid, _) => pid,
    };
    drop(told);
    let mut words = String::new();
    fs::File::from(heard).read_to_string(&mut words)?;
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)?;
    if words.is_empty() { Ok(()) } else { Err(io::Error::other(words)) }
}

fn build(users: &Users) -> io::Result<()> {
    step("become root of a user namespace", || users.begin())?;
    step("bring a loopback up", loopback::up)?;
    step("change mounts", || {
        let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        Ok(mount_change("/", flags)?)
    })?;
    let nothing = MountAttrFlags::empty();
    // Refused where parts of the host's own are hidden, as in a container.
    step("mount a /proc of its own", || Detached::new("proc", &[], nothing))?;
    step("mount an overlay", || {
        let place = Detached::new("tmpfs", &[("size", "64k")], nothing)?;
        for name in ["lower", "upper", "work"] {
            mkdirat(&place, name, Mode::from_raw_mode(0o755))?;
        }
        let open = |name| place.open(name, OFlags::PATH | OFlags::DIRECTORY);
        let changes = Changes { upper: open("upper")?, work: open("work")? };
        let lowers = [Detached::from(open("lower")?)];
        Detached::overlay(&lowers, Some(&changes), Privilege::User, nothing)
    })?;
    Ok(())
}

fn step<T>(step: &str, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    work().map_err(|err| refused(step, &err))
}

fn refused(step: &str, err: &io::Error) -> io::Error {
    io::Error::other(format!("cannot {step}: {err}"))
}
