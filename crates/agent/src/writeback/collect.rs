//! Which files are written back: every regular file below the assets directory,
//! in the order of their paths. Links are not followed and nothing else than a
//! file is read, since tools made them and tools are hostile.
//!
//! A bag is flat, so a file is named by the last part of its path. Where two
//! files would have one name, both are named by their whole path below the
//! assets directory with `-` in the place of `/`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use wire::agent::AgentLimits;
use wire::hex;

/// How deep the directory is looked into.
const MAX_DEPTH: usize = 32;

/// A file to write back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asset {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) size: u64,
    /// In lowercase hex.
    pub(super) sha256: String,
}

/// Why the files cannot be written back.
#[derive(Debug, thiserror::Error)]
pub(super) enum CollectError {
    #[error("there are more than {0} files")]
    TooMany(u64),
    #[error("`{name}` has {size} bytes; the limit of a file is {limit}")]
    FileTooLarge { name: String, size: u64, limit: u64 },
    #[error("with `{name}` the files have more than {limit} bytes")]
    TooLarge { name: String, limit: u64 },
    #[error("cannot read `{name}`: {source}")]
    Read { name: String, source: io::Error },
}

impl Asset {
    /// The file as a step shows it.
    pub(super) fn shown(&self) -> Value {
        json!({"name": self.name, "size": self.size, "sha256": self.sha256})
    }
}

/// Finds the files, none over a limit. What is no file is told to `skipped`.
pub(super) fn collect(
    directory: &Path,
    limits: &AgentLimits,
    mut skipped: impl FnMut(String),
) -> Result<Vec<Asset>, CollectError> {
    let mut found = Vec::new();
    walk(directory, "", limits, &mut found, &mut skipped)?;
    let mut uses = BTreeMap::<String, usize>::new();
    for relative in &found {
        *uses.entry(last_part(relative).to_owned()).or_default() += 1;
    }
    let mut total = 0u64;
    let mut assets = Vec::with_capacity(found.len());
    for relative in found {
        let name = match uses.get(last_part(&relative)) {
            Some(2..) => relative.replace('/', "-"),
            Some(_) | None => last_part(&relative).to_owned(),
        };
        let path = directory.join(&relative);
        let (size, sha256) = weigh(&path, limits.upload_file_bytes, &relative)?;
        total = total.saturating_add(size);
        if total > limits.upload_total_bytes {
            let limit = limits.upload_total_bytes;
            return Err(CollectError::TooLarge { name: relative, limit });
        }
        assets.push(Asset { path, name, size, sha256 });
    }
    Ok(assets)
}

/// Opens a file for reading, when it is one and no link leads to it.
pub(super) fn open(path: &Path) -> io::Result<File> {
    // Opening a FIFO would wait for whoever writes into it.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).map_err(|_| io::Error::from(ErrorKind::Unsupported))?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "not a file any more")),
    }
}

fn walk(
    directory: &Path,
    below: &str,
    limits: &AgentLimits,
    found: &mut Vec<String>,
    skipped: &mut impl FnMut(String),
) -> Result<(), CollectError> {
    let cannot = |source| CollectError::Read { name: format!("assets/{below}"), source };
    match directory.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            skipped(format!("{} is not a directory", directory.display()));
            return Ok(());
        }
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(()),
        Err(err) => return Err(cannot(err)),
    }
    let mut entries = Vec::new();
    for entry in directory.read_dir().map_err(cannot)? {
        entries.push(entry.map_err(cannot)?);
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            skipped(format!("{} has no name in Unicode", entry.path().display()));
            continue;
        };
        let relative = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(cannot)?;
        if kind.is_dir() && relative.matches('/').count() < MAX_DEPTH {
            walk(&entry.path(), &relative, limits, found, skipped)?;
        } else if kind.is_file() {
            found.push(relative);
            if u64::try_from(found.len()).unwrap_or(u64::MAX) > limits.upload_files {
                return Err(CollectError::TooMany(limits.upload_files));
            }
        } else {
            skipped(format!("{relative} is not a file"));
        }
    }
    Ok(())
}

/// Size and SHA-256 of a file that is small enough.
fn weigh(path: &Path, limit: u64, name: &str) -> Result<(u64, String), CollectError> {
    let cannot = |source| CollectError::Read { name: name.to_owned(), source };
    let mut file = open(path).map_err(cannot)?;
    let too_large = |size| CollectError::FileTooLarge { name: name.to_owned(), size, limit };
    let claimed = file.metadata().map_err(cannot)?.len();
    if claimed > limit {
        return Err(too_large(claimed));
    }
    let mut hash = Sha256::new();
    let mut size = 0u64;
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = match file.read(&mut piece) {
            Ok(0) => return Ok((size, hex(&hash.finalize()))),
            Ok(count) => count,
            Err(err) if err.kind() == ErrorKind::Interrupted => continue,
            Err(err) => return Err(cannot(err)),
        };
        hash.update(&piece[..count]);
        size = size.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        // It may grow while it is read.
        if size > limit {
            return Err(too_large(size));
        }
    }
}

fn last_part(relative: &str) -> &str {
    relative.rsplit('/').next().unwrap_or(relative)
}

#[cfg(test)]
mod tests;
