//! Directories that appear and vanish as a whole, and the lock that keeps two
//! changes apart, within this process and between processes.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use isolate::remove_tree;
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags},
    io::Errno,
};
use tracing::warn;

/// How the names of directories end that are not templates, yet or any more.
pub(super) const PARTIAL: &str = "partial";
pub(super) const REMOVED: &str = "removed";

/// Held while a directory's content changes. The kernel lets go of it with us.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "closing it unlocks")] File);

impl Lock {
    /// Waits until nobody else changes `directory`.
    pub(super) fn take(directory: &Path) -> io::Result<Lock> {
        let file = File::open(directory)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(Lock(file))
    }

    /// `None` if somebody changes `directory` now.
    pub(super) fn try_take(directory: &Path) -> io::Result<Option<Lock>> {
        let file = File::open(directory)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// A directory that is gone when it is dropped, unless it was published.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) path: PathBuf,
}

impl Scratch {
    /// Makes it, empty and for us alone.
    pub(super) fn make(path: PathBuf) -> io::Result<Scratch> {
        remove_tree(&path)?;
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Scratch { path })
    }

    /// Gives it its final name, if nobody has that.
    pub(super) fn publish(&self, home: &Path) -> io::Result<()> {
        rustix::fs::renameat_with(CWD, &self.path, CWD, home, RenameFlags::NOREPLACE)?;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.path) {
            warn!(%error, "{} could not be removed", self.path.display());
        }
    }
}

/// Removes what changes that were cut off left. The lock must be held.
pub(super) fn sweep(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == PARTIAL || end == REMOVED) {
            remove_tree(&path)?;
        }
    }
    Ok(())
}
