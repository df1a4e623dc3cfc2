//! Mounts by descriptor: nothing here follows a path inside a sandbox.

#![expect(unsafe_code, reason = "mount_setattr(2) has no safe wrapper")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
        fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
        open_tree,
    },
};

use super::spec::Privilege;

/// A mount that is not in any tree yet.
pub(super) struct Detached(OwnedFd);

impl AsFd for Detached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Detached {
    fn from(mount: OwnedFd) -> Detached {
        Detached(mount)
    }
}

/// Where an overlay keeps what is written to it.
pub(super) struct Changes {
    pub(super) upper: OwnedFd,
    pub(super) work: OwnedFd,
}

/// Options of a new file system; one with an empty value has none.
pub(super) type Options<'a> = &'a [(&'a str, &'a str)];

impl Detached {
    /// A new file system.
    pub(super) fn new(
        kind: &str,
        options: Options<'_>,
        attributes: MountAttrFlags,
    ) -> io::Result<Detached> {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            if value.is_empty() {
                fsconfig_set_flag(&context, *key)?;
            } else {
                fsconfig_set_string(&context, *key, *value)?;
            }
        }
        finish(&context, attributes)
    }

    /// An overlay of layers given by descriptor, the topmost first, so that no
    /// path of the host shows in the sandbox's mountinfo. Without a place for
    /// changes it takes none.
    pub(super) fn overlay(
        lowers: &[Detached],
        changes: Option<&Changes>,
        privilege: Privilege,
        attributes: MountAttrFlags,
    ) -> io::Result<Detached> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        for lower in lowers {
            fsconfig_set_fd(&context, "lowerdir+", lower)?;
        }
        if let Some(Changes { upper, work }) = changes {
            fsconfig_set_fd(&context, "upperdir", upper)?;
            fsconfig_set_fd(&context, "workdir", work)?;
        }
        match privilege {
            // Layers are idmapped or owned by the sandbox's ids, so attributes
            // of ours in `trusted.*` are all that overlayfs writes.
            Privilege::Root => {}
            // Those are root's alone.
            Privilege::User => fsconfig_set_flag(&context, "userxattr")?,
        }
        finish(&context, attributes)
    }

    /// The same mount, once more.
    pub(super) fn try_clone(&self) -> io::Result<Detached> {
        Ok(Detached(self.0.try_clone()?))
    }

    /// A copy of one mount or file of the tree this process sees.
    pub(super) fn copy_of(path: &Path) -> io::Result<Detached> {
        Detached::copy_at(rustix::fs::CWD, path)
    }

    /// A copy of what is at `path` below `directory`.
    pub(super) fn copy_at(directory: impl AsFd, path: &Path) -> io::Result<Detached> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        Ok(Detached(open_tree(directory, path, flags)?))
    }

    /// Makes it read-only, and its files belong to the same names inside
    /// `users` as they do outside.
    pub(super) fn map_ids_read_only(&self, users: &OwnedFd) -> io::Result<()> {
        let attributes = libc::MOUNT_ATTR_IDMAP | libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV;
        set_attributes(&self.0, attributes, users.as_raw_fd() as u64)
    }

    /// Makes it read-only, its files belonging to whom they belong to.
    pub(super) fn read_only_without_devices(&self) -> io::Result<()> {
        set_attributes(&self.0, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV, 0)
    }

    /// Makes it read-only.
    pub(super) fn read_only(&self) -> io::Result<()> {
        set_attributes(&self.0, libc::MOUNT_ATTR_RDONLY, 0)
    }

    /// Puts it where `place` is.
    pub(super) fn attach(&self, place: &OwnedFd) -> io::Result<()> {
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(&self.0, "", place, "", flags)?)
    }

    /// A directory or file in it.
    pub(super) fn open(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        open_beneath(&self.0, path, flags)
    }
}

/// Opens `path` below `root` without following any link in it.
pub(super) fn open_beneath(root: impl AsFd, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)?)
}

/// The place to mount on, made if it is not there.
pub(super) fn mount_point(root: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let root = root.as_fd();
    match open_beneath(root, path, OFlags::PATH | OFlags::DIRECTORY) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
            let parent = open_beneath(root, parent, OFlags::PATH | OFlags::DIRECTORY)?;
            rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
            open_beneath(root, path, OFlags::PATH | OFlags::DIRECTORY)
        }
        result => result,
    }
}

fn finish(context: &OwnedFd, attributes: MountAttrFlags) -> io::Result<Detached> {
    fsconfig_create(context)?;
    Ok(Detached(fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?))
}

fn set_attributes(mount: &OwnedFd, attributes: u64, users: u64) -> io::Result<()> {
    let change =
        libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: users };
    // SAFETY: the path is an empty C string, and `change` is a whole mount_attr
    // that lives until the call returns; its size is passed beside it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            AtFlags::EMPTY_PATH.bits(),
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
