//! The sandbox's file tree, built by descriptor in a mount namespace of its own
//! before any code of the sandbox runs.
//!
//! The namespace belongs to the host's users, so the sandbox's root can neither
//! mount nor unmount anything in it. Without root it belongs to the sandbox's,
//! and the filter and the capabilities see to that. It dies with its last
//! process, and every mount with it.
//!
//! ```text
//! /        overlay: template's layers (idmapped, read-only), upper of its own
//! /usr     overlay over the host's, for `dev` only; read-only without root
//! /proc    of its own pid namespace; the dangerous parts masked or read-only
//! /dev     tmpfs with six harmless nodes, a terminal file system of its own
//! /sys     read-only tmpfs that knows the processors and nothing else
//! ```

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, Gid, Mode, OFlags, Uid, chownat, makedev, mkdirat, mknodat, symlinkat},
    mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount},
};

use super::{
    disk::Disk,
    mount::{Changes, Detached, mount_point, open_beneath},
    spec::{Defence, HostUsr, Privilege, Spec},
    users::Users,
};
use crate::seen::meminfo;

const QUIET: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Directories of `/proc` that tell about or change the host.
const HIDDEN_DIRECTORIES: [&str; 3] = ["acpi", "asound", "scsi"];
/// Files of `/proc` that do.
const HIDDEN_FILES: [&str; 10] = [
    "interrupts",
    "kallsyms",
    "kcore",
    "keys",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
];
/// Parts of `/proc` that may be read.
const READ_ONLY: [&str; 4] = ["bus", "fs", "irq", "sys"];

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// Builds the tree and makes it the root of this process, which is alone in
/// fresh mount, pid, network, ipc and uts namespaces, and still the host's root
/// or, without that, the root of a user namespace that these belong to.
/// `disk` is where the sandbox keeps what it writes.
pub(super) fn enter(spec: &Spec, disk: &Disk, users: &Users) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // The state directory itself: what is below it is covered, here alone.
    let place = rustix::fs::open(".", DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let disk = disk.mount()?;
    let changes = changes(&disk, ["upper", "work"])?;
    // Set-user-id programs stay so: sudo works, and gives what the sandbox's
    // root has, which is nothing outside.
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV;
    let lowers = lowers(&spec.layers, users)?;
    let root = Detached::overlay(&lowers, Some(&changes), spec.privilege, attributes)?;
    root.attach(&place)?;
    let at_root = root.open(".", DIRECTORY)?;
    if let Some(host) = &spec.host_usr {
        usr(host, &disk, users, spec.privilege)?.attach(&mount_point(&at_root, "usr")?)?;
    }
    proc(&at_root, spec)?;
    dev(&at_root, spec)?;
    sys(&at_root, spec)?;
    pivot(&at_root, spec)
}

/// The host's `/usr`, with what lies over it.
fn usr(
    host: &HostUsr,
    disk: &Detached,
    users: &Users,
    privilege: Privilege,
) -> io::Result<Detached> {
    let mut layers = host.over.clone();
    layers.push("/usr".into());
    let mut lowers = lowers(&layers, users)?;
    let changes = changes(disk, ["usr-upper", "usr-work"])?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV;
    match privilege {
        Privilege::Root => Detached::overlay(&lowers, Some(&changes), privilege, attributes),
        // The files are nobody's, and a change would have to keep it so, which
        // a user cannot. An overlay that takes no changes has two layers at
        // least, so that an empty one is put on top.
        Privilege::User => {
            lowers.insert(0, Detached::from(changes.upper));
            let attributes = attributes | MountAttrFlags::MOUNT_ATTR_RDONLY;
            Detached::overlay(&lowers, None, privilege, attributes)
        }
    }
}

fn lowers(layers: &[PathBuf], users: &Users) -> io::Result<Vec<Detached>> {
    let lower = |layer: &PathBuf| {
        let lower = Detached::copy_of(layer)?;
        users.show(&lower)?;
        Ok(lower)
    };
    layers.iter().map(lower).collect()
}

fn changes(disk: &Detached, names: [&str; 2]) -> io::Result<Changes> {
    let [upper, work] = names;
    Ok(Changes { upper: disk.open(upper, DIRECTORY)?, work: disk.open(work, DIRECTORY)? })
}

fn proc(root: &OwnedFd, spec: &Spec) -> io::Result<()> {
    let proc = Detached::new("proc", &[], QUIET)?;
    proc.attach(&mount_point(root, "proc")?)?;
    if spec.has(Defence::OwnNetwork) {
        // Low ports are as good as high ones to a sandbox that has its own network.
        write(&proc, "sys/net/ipv4/ip_unprivileged_port_start", "0")?;
        let ids = format!("{} {}", spec.id(0), spec.id(65_535));
        write(&proc, "sys/net/ipv4/ping_group_range", &ids)?;
    }
    match spec.privilege {
        Privilege::Root => {}
        // Its root would have every power over what it makes in a user namespace
        // below its own. The filter lets it make none, and neither does this.
        Privilege::User => write(&proc, "sys/user/max_user_namespaces", "0")?,
    }
    let covers = Detached::new("tmpfs", &[("size", "64k"), ("mode", "755")], QUIET)?;
    file(&covers, "empty", "")?;
    file(&covers, "meminfo", &meminfo(spec.limits.memory_mib))?;
    mkdirat(&covers, "nothing", Mode::from_raw_mode(0o555))?;
    covers.read_only()?;
    if spec.has(Defence::ProcMasks) {
        for (cover, names) in [("nothing", &HIDDEN_DIRECTORIES[..]), ("empty", &HIDDEN_FILES[..])] {
            for name in names {
                hide(&proc, name, &covers, cover)?;
            }
        }
    }
    match spec.privilege {
        Privilege::Root => hide(&proc, "meminfo", &covers, "meminfo")?,
        // Memory has no limit that could be told.
        Privilege::User => {}
    }
    let read_only = if spec.has(Defence::ReadOnlyKernel) { &READ_ONLY[..] } else { &[] };
    for name in read_only {
        let copy = Detached::copy_at(&proc, Path::new(name))?;
        copy.read_only()?;
        copy.attach(&proc.open(name, OFlags::PATH)?)?;
    }
    Ok(())
}

/// Lays a file or directory of our own over one of `/proc`, if this kernel has it.
fn hide(proc: &Detached, name: &str, covers: &Detached, cover: &str) -> io::Result<()> {
    let place = match proc.open(name, OFlags::PATH) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        place => place?,
    };
    let copy = Detached::copy_at(covers, Path::new(cover))?;
    copy.read_only()?;
    copy.attach(&place)
}

fn dev(root: &OwnedFd, spec: &Spec) -> io::Result<()> {
    let quiet = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let owner = spec.id(0).to_string();
    let options = [("size", "64k"), ("mode", "755"), ("uid", &owner), ("gid", &owner)];
    let dev = Detached::new("tmpfs", &options, quiet)?;
    dev.attach(&mount_point(root, "dev")?)?;
    let nodes = [("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)];
    for (name, minor) in nodes {
        node(&dev, name, makedev(1, minor), spec)?;
    }
    node(&dev, "tty", makedev(5, 0), spec)?;
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ];
    for (name, target) in links {
        symlinkat(target, &dev, name)?;
    }
    let gid = spec.id(5).to_string();
    let options = [("ptmxmode", "0666"), ("mode", "0620"), ("gid", &gid)];
    let terminals = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Detached::new("devpts", &options, terminals)?.attach(&mount_point(&dev, "pts")?)?;
    let size = format!("{}m", (spec.limits.memory_mib / 2).max(16));
    Detached::new("tmpfs", &[("size", &size), ("mode", "1777")], QUIET)?
        .attach(&mount_point(&dev, "shm")?)
}

fn node(dev: &Detached, name: &str, number: u64, spec: &Spec) -> io::Result<()> {
    match spec.privilege {
        Privilege::Root => {
            // The umask of the keeper is zero, so the mode is what it says.
            mknodat(dev, name, FileType::CharacterDevice, Mode::from_raw_mode(0o666), number)?;
            own(dev, name, spec)
        }
        // Only root makes nodes, so these are the host's.
        Privilege::User => {
            file(dev, name, "")?;
            let copy = Detached::copy_of(&Path::new("/dev").join(name))?;
            copy.attach(&dev.open(name, OFlags::PATH)?)
        }
    }
}

fn sys(root: &OwnedFd, spec: &Spec) -> io::Result<()> {
    let sys = Detached::new("tmpfs", &[("size", "64k"), ("mode", "755")], QUIET)?;
    for directory in ["devices", "devices/system", "devices/system/cpu"] {
        mkdirat(&sys, directory, Mode::from_raw_mode(0o755))?;
    }
    let last = processors(spec).saturating_sub(1);
    let range = if last == 0 { "0\n".to_owned() } else { format!("0-{last}\n") };
    for name in ["online", "possible", "present"] {
        file(&sys, &format!("devices/system/cpu/{name}"), &range)?;
    }
    if spec.has(Defence::ReadOnlyKernel) {
        sys.read_only()?;
    }
    sys.attach(&mount_point(root, "sys")?)
}

/// What a sandbox may use, which without a limit is all there are.
fn processors(spec: &Spec) -> usize {
    match spec.privilege {
        Privilege::Root => spec.limits.cpus as usize,
        Privilege::User => std::thread::available_parallelism().map_or(1, |count| count.get()),
    }
}

/// Makes `root` the root and lets go of the host's tree.
fn pivot(root: &OwnedFd, spec: &Spec) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    // The old root lies over the new one now; see pivot_root(2).
    if spec.has(Defence::OwnTree) {
        unmount(".", UnmountFlags::DETACH)?;
    }
    rustix::process::chdir("/")?;
    Ok(())
}

fn file(directory: impl AsFd, name: &str, content: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o444))?;
    File::from(file).write_all(content.as_bytes())
}

fn write(proc: &Detached, path: &str, value: &str) -> io::Result<()> {
    let file = open_beneath(proc, path, OFlags::WRONLY)?;
    File::from(file).write_all(value.as_bytes())
}

fn own(directory: impl AsFd, name: &str, spec: &Spec) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(spec.id(0)), Gid::from_raw(spec.id(0)));
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    Ok(chownat(directory, name, Some(uid), Some(gid), flags)?)
}
