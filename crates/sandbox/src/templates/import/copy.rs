//! A directory into a layer, as `cp -ax` would.
//!
//! It is walked by descriptor, links are never followed, and other file
//! systems mounted in it stay out (their mount points come along, empty).

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    buffer::spare_capacity,
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::{ImportError, Progress};
use crate::templates::layer::{Attributes, Layer, Modified, is_kept_xattr};

/// The kernel's own limit on a list of attributes and on one value.
const XATTR_LIMIT: usize = 64 * 1024;

/// Writes everything below `source` into `layer`.
pub(super) fn copy(
    layer: &mut Layer,
    source: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Progress, ImportError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(source, flags, Mode::empty()).map_err(unread(source))?;
    let device = rustix::fs::fstat(&root).map_err(unread(source))?.st_dev;
    let total_bytes = measure(&root, device, Path::new(""), &mut HashSet::new())?;
    let done = Progress { total_bytes, ..Progress::default() };
    let mut walk = Walk { layer, device, names: HashMap::new(), done, progress };
    walk.directory(root, Path::new(""))?;
    Ok(walk.done)
}

/// Device and inode: what tells that two names are one file.
type Identity = (u64, u64);

struct Walk<'a> {
    layer: &'a mut Layer,
    device: u64,
    /// The first name of each file that has several.
    names: HashMap<Identity, PathBuf>,
    done: Progress,
    progress: &'a mut dyn FnMut(Progress),
}

impl Walk<'_> {
    fn directory(&mut self, directory: OwnedFd, path: &Path) -> Result<(), ImportError> {
        let stat = rustix::fs::fstat(&directory).map_err(unread(path))?;
        let xattrs = xattrs(&directory).map_err(unread(path))?;
        self.layer.directory(path, &attributes(&stat, xattrs))?;
        self.wrote(0);
        if stat.st_dev != self.device {
            return Ok(());
        }
        for name in names(&directory).map_err(unread(path))? {
            self.entry(&directory, &name, &path.join(&name))?;
        }
        Ok(())
    }

    fn entry(&mut self, directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), ImportError> {
        let stat =
            rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(unread(path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = OFlags::DIRECTORY;
                self.directory(open(directory, name, flags).map_err(unread(path))?, path)
            }
            FileType::RegularFile => self.file(directory, name, path),
            FileType::Symlink => {
                let target =
                    rustix::fs::readlinkat(directory, name, Vec::new()).map_err(unread(path))?;
                let target = OsStr::from_bytes(target.as_bytes());
                self.layer.symlink(path, &attributes(&stat, Vec::new()), target)?;
                self.wrote(0);
                Ok(())
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                self.done.skipped += 1;
                Ok(())
            }
        }
    }

    fn file(&mut self, directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), ImportError> {
        // The file may have been exchanged for a pipe since it was looked at.
        let file = open(directory, name, OFlags::NONBLOCK).map_err(unread(path))?;
        let stat = rustix::fs::fstat(&file).map_err(unread(path))?;
        if !super::is_regular(stat.st_mode) {
            self.done.skipped += 1;
            return Ok(());
        }
        if stat.st_nlink > 1 {
            if let Some(first) = self.names.get(&identity(&stat)) {
                self.layer.hard_link(path, first)?;
                self.wrote(0);
                return Ok(());
            }
            self.names.insert(identity(&stat), path.to_owned());
        }
        let xattrs = xattrs(&file).map_err(unread(path))?;
        self.layer.file(path, &attributes(&stat, xattrs), &mut File::from(file))?;
        self.wrote(length(&stat));
        Ok(())
    }

    fn wrote(&mut self, length: u64) {
        self.done.entries += 1;
        self.done.read_bytes += length;
        (self.progress)(self.done);
    }
}

/// The length of all files below, each counted once.
fn measure(
    directory: &OwnedFd,
    device: u64,
    path: &Path,
    seen: &mut HashSet<Identity>,
) -> Result<u64, ImportError> {
    let mut total = 0;
    for name in names(directory).map_err(unread(path))? {
        let path = path.join(&name);
        let stat = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(unread(&path))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::RegularFile && (stat.st_nlink == 1 || seen.insert(identity(&stat))) {
            total += length(&stat);
        } else if kind == FileType::Directory && stat.st_dev == device {
            let directory = open(directory, &name, OFlags::DIRECTORY).map_err(unread(&path))?;
            total += measure(&directory, device, &path, seen)?;
        }
    }
    Ok(total)
}

fn open(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

fn names(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn attributes(stat: &Stat, xattrs: Vec<(String, Vec<u8>)>) -> Attributes {
    Attributes {
        uid: stat.st_uid.into(),
        gid: stat.st_gid.into(),
        mode: stat.st_mode,
        modified: Some(Modified {
            seconds: stat.st_mtime,
            nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        }),
        xattrs,
    }
}

/// The attributes a layer keeps; none where the file system has none.
fn xattrs(file: impl AsFd) -> Result<Vec<(String, Vec<u8>)>, Errno> {
    let mut list = Vec::with_capacity(XATTR_LIMIT);
    match rustix::fs::flistxattr(&file, spare_capacity(&mut list)) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    }
    let mut xattrs = Vec::new();
    for name in list.split(|byte| *byte == 0).filter_map(|name| str::from_utf8(name).ok()) {
        if is_kept_xattr(name) {
            let mut value = Vec::with_capacity(XATTR_LIMIT);
            rustix::fs::fgetxattr(&file, name, spare_capacity(&mut value))?;
            xattrs.push((name.to_owned(), value));
        }
    }
    Ok(xattrs)
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

fn unread(path: &Path) -> impl FnOnce(Errno) -> ImportError {
    let path = path.to_owned();
    move |errno| ImportError::Source { path, source: io::Error::from(errno) }
}
