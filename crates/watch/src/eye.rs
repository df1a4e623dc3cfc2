//! Watches on directories, and which path each of them stands for.
//!
//! A watch belongs to an inode, so it moves along with a directory. One whose
//! directory went away is *detached*: what it says is passed over until its
//! directory is found again, under whatever name, or until the kernel has
//! nothing more to say; then it is let go.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// Room for what one read returns: some thousand events.
const READ_BYTES: usize = 64 << 10;

/// Something the kernel said.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) watch: i32,
    pub(crate) flags: ReadFlags,
    pub(crate) name: OsString,
}

/// The watches of one tree.
pub(crate) struct Eye {
    inotify: OwnedFd,
    paths: HashMap<i32, PathBuf>,
    watches: BTreeMap<PathBuf, i32>,
    detached: HashSet<i32>,
    most: usize,
}

/// What came of watching a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// It is watched from now on, under this path.
    Anew,
    /// It was watched under this path all the time.
    Already,
    /// It is gone, or cannot be read.
    NotThere,
    /// Its path is too long for the system.
    TooDeep,
    /// The system has no more watches.
    NoMore,
}

impl Eye {
    /// An eye that is closed. There are few of them on a system.
    pub(crate) fn new(most: usize) -> Result<Eye, Errno> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let (paths, watches, detached) = (HashMap::new(), BTreeMap::new(), HashSet::new());
        Ok(Eye { inotify, paths, watches, detached, most })
    }

    /// Watches a directory, `path` below `root`.
    pub(crate) fn watch(&mut self, root: &Path, path: &Path) -> Watched {
        if self.paths.len() >= self.most && !self.watches.contains_key(path) {
            return Watched::NoMore;
        }
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW
            | WatchFlags::EXCL_UNLINK;
        let watch = match inotify::add_watch(&self.inotify, root.join(path), flags) {
            Ok(watch) => watch,
            Err(Errno::NOSPC | Errno::NOMEM) => return Watched::NoMore,
            Err(Errno::NAMETOOLONG) => return Watched::TooDeep,
            Err(_) => return Watched::NotThere,
        };
        let was_detached = self.detached.remove(&watch);
        match self.paths.get(&watch) {
            Some(known) if known == path && !was_detached => return Watched::Already,
            // The directory has moved, and we hear of it here first.
            Some(known) if self.watches.get(known) == Some(&watch) => {
                self.watches.remove(known);
            }
            Some(_) | None => {}
        }
        // Another directory was there before.
        if let Some(before) = self.watches.insert(path.to_owned(), watch) {
            self.detached.insert(before);
        }
        self.paths.insert(watch, path.to_owned());
        Watched::Anew
    }

    /// The path that a watch stands for.
    pub(crate) fn path(&self, watch: i32) -> Option<&Path> {
        match self.detached.contains(&watch) {
            true => None,
            false => self.paths.get(&watch).map(PathBuf::as_path),
        }
    }

    /// Whether a path is watched.
    pub(crate) fn watches(&self, path: &Path) -> bool {
        self.watches.contains_key(path)
    }

    /// Watched directories at and below a path.
    pub(crate) fn below(&self, directory: &Path) -> Vec<PathBuf> {
        self.watches
            .range::<Path, _>((Bound::Included(directory), Bound::Unbounded))
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(directory))
            .cloned()
            .collect()
    }

    /// A directory is no longer under its path.
    pub(crate) fn detach(&mut self, path: &Path) {
        if let Some(watch) = self.watches.remove(path) {
            self.detached.insert(watch);
        }
    }

    /// The kernel has dropped a watch.
    pub(crate) fn forget(&mut self, watch: i32) {
        self.detached.remove(&watch);
        if let Some(path) = self.paths.remove(&watch)
            && self.watches.get(&path) == Some(&watch)
        {
            self.watches.remove(&path);
        }
    }

    /// Lets go of watches whose directory was not found again.
    pub(crate) fn release_detached(&mut self) {
        for watch in std::mem::take(&mut self.detached) {
            self.paths.remove(&watch);
            // The directory may be gone already, and the watch with it.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    /// What one read returns; nothing when there is nothing more for now.
    pub(crate) fn read(&self) -> Vec<Seen> {
        let mut room = [MaybeUninit::uninit(); READ_BYTES];
        let mut reader = Reader::new(&self.inotify, &mut room);
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map_or(b"".as_slice(), |name| name.to_bytes());
                    seen.push(Seen {
                        watch: event.wd(),
                        flags: event.events(),
                        name: OsStr::from_bytes(name).to_owned(),
                    });
                }
                Err(Errno::INTR) => continue,
                Err(_) => return seen,
            }
            if reader.is_buffer_empty() {
                return seen;
            }
        }
    }
}

impl AsFd for Eye {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
