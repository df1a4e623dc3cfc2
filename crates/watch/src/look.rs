//! What can be seen of one file without opening it.

use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use rustix::path::Arg;

/// What makes a file another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    size: u64,
    inode: u64,
    modified: (i64, u32),
    status_changed: (i64, u32),
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// A regular file or a link.
    File(State),
    /// A directory.
    Directory,
    /// A pipe, a socket, a device: nobody's file.
    Other,
    /// Nothing, or nothing that can be looked at.
    Nothing,
}

/// Looks at a path.
pub(crate) fn look(path: &Path) -> Looked {
    look_at(CWD, path)
}

/// The inode at a path.
pub(crate) fn inode(path: &Path) -> Option<u64> {
    let seen = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO);
    seen.ok().map(|seen| seen.stx_ino)
}

/// Looks at a name in an open directory.
pub(crate) fn look_at(directory: impl AsFd, name: impl Arg) -> Looked {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let Ok(seen) = statx(directory, name, flags, StatxFlags::BASIC_STATS) else {
        return Looked::Nothing;
    };
    match FileType::from_raw_mode(u32::from(seen.stx_mode)) {
        FileType::RegularFile | FileType::Symlink => Looked::File(State {
            size: seen.stx_size,
            inode: seen.stx_ino,
            modified: (seen.stx_mtime.tv_sec, seen.stx_mtime.tv_nsec),
            status_changed: (seen.stx_ctime.tv_sec, seen.stx_ctime.tv_nsec),
        }),
        FileType::Directory => Looked::Directory,
        FileType::BlockDevice
        | FileType::CharacterDevice
        | FileType::Fifo
        | FileType::Socket
        | FileType::Unknown => Looked::Other,
    }
}

#[cfg(test)]
impl State {
    /// A state that differs from others by its number.
    pub(crate) fn numbered(number: u64) -> State {
        State { size: number, inode: 1, modified: (0, 0), status_changed: (0, 0) }
    }
}
