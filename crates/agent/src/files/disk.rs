//! What lies in the workspace, seen without `git`.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{Access, OFlags};

use super::OURS;

/// Largest untracked file that is compared. Of a larger one it is said that it
/// differs: git would copy it.
const FILE_BYTES: u64 = 32 << 20;
/// Largest index that is copied: one of some million files.
const INDEX_BYTES: u64 = 256 << 20;
/// The mode of a link to a commit.
const LINK_MODE: u32 = 0o160_000;
/// Directories that are looked into for whether there is any file.
const DIRECTORIES: usize = 10_000;

/// What a path is to git.
pub(super) enum Weight {
    Fine(u64, Option<SystemTime>),
    Large(u64, Option<SystemTime>),
    /// There is no file; there may be a directory or a pipe.
    Gone,
    /// It cannot be read.
    NotOurs,
}

pub(super) fn weigh(path: &Path) -> Weight {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Weight::Gone };
    if metadata.is_symlink() {
        return Weight::Fine(0, None);
    }
    if !metadata.is_file() {
        return Weight::Gone;
    }
    if rustix::fs::access(path, Access::READ_OK).is_err() {
        return Weight::NotOurs;
    }
    match metadata.len() > FILE_BYTES {
        true => Weight::Large(metadata.len(), metadata.modified().ok()),
        false => Weight::Fine(metadata.len(), metadata.modified().ok()),
    }
}

/// What a path below the work is to git: what lies beyond a link is not there.
pub(super) fn weigh_below(work: &Path, path: &Path) -> Weight {
    let is_link = |parent: &Path| {
        fs::symlink_metadata(work.join(parent)).is_ok_and(|metadata| metadata.is_symlink())
    };
    let mut parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    match parents.any(is_link) {
        true => Weight::Gone,
        false => weigh(&work.join(path)),
    }
}

/// Whether an index may have links to commits. Their mode is in it as four bytes
/// that are seldom there by chance; git would have to list all it has.
pub(super) fn may_hold_links(index: &Path) -> bool {
    let Ok(file) = fs::File::open(index) else { return false };
    let mut file = BufReader::with_capacity(64 << 10, file);
    let mut last = u32::MAX;
    loop {
        let count = match file.fill_buf() {
            Ok([]) | Err(_) => return false,
            Ok(bytes) => {
                for byte in bytes {
                    last = last << 8 | u32::from(*byte);
                    if last == LINK_MODE {
                        return true;
                    }
                }
                bytes.len()
            }
        };
        file.consume(count);
    }
}

/// Whether there is any file that counts, or a repository.
pub(super) fn holds_anything(work: &Path) -> bool {
    let mut waiting = vec![work.to_owned()];
    let mut seen = 0;
    while let Some(directory) = waiting.pop() {
        seen += 1;
        if seen > DIRECTORIES {
            return true;
        }
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match is_directory {
                true if entry.file_name() == ".git" => return true,
                true if [OURS, "node_modules"].iter().any(|name| entry.file_name() == *name) => {}
                true => waiting.push(entry.path()),
                false => return true,
            }
        }
    }
    false
}

/// Copies an index with its time: git does not trust what it knows of files
/// that are as young as their index, and a younger copy would have it trust.
/// What is no file, such as a pipe that nobody writes to, is no index.
pub(super) fn copy_with_time(from: &Path, to: &Path) -> io::Result<()> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let from = fs::File::options().read(true).custom_flags(flags).open(from)?;
    let metadata = from.metadata()?;
    if !metadata.is_file() || metadata.len() > INDEX_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    // The agent can write there too.
    let _ = fs::remove_file(to);
    let mut to = fs::File::create_new(to)?;
    io::copy(&mut from.take(INDEX_BYTES), &mut to)?;
    to.set_times(fs::FileTimes::new().set_modified(metadata.modified()?))
}
