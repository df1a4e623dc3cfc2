//! Unpacking a zip that may have been made to do harm.
//!
//! Every entry is looked at before the first byte is written: its name, its
//! kind, what it claims to weigh, where its bytes lie, and what other entries
//! it would fall upon. While writing, the claims are checked against what
//! really comes. A refusal names the entry.
//!
//! Only files and directories are made, and only below the given directory:
//! a link that already lies there is replaced, never followed.

mod entry;
mod tree;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use zip::ZipReadOptions;
use zip::read::{Config, ZipFileEntry};
use zip::result::ZipError;
use zip::unstable::read::ZipIterable;

use entry::Entry;
use tree::Tree;

/// Most entries of one zip; each costs a file or a directory.
const MAX_ENTRIES: usize = 10_000;

/// Pieces in which an entry is written.
const PIECE: usize = 64 << 10;

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Why a zip was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error("not a zip that can be read: {0}")]
    NotZip(String),
    #[error("it has {0} entries; the limit is {MAX_ENTRIES}")]
    TooManyEntries(usize),
    #[error("entry `{name}`: {reason}")]
    Entry { name: String, reason: Reason },
    #[error("cannot write `{path}`")]
    Write { path: String, source: io::Error },
}

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    #[error("its name is absolute")]
    Absolute,
    #[error("its name leads out of the directory")]
    Parent,
    #[error("its name has a backslash")]
    Backslash,
    #[error("its name is empty, too long or has control characters")]
    BadName,
    #[error("it is a symbolic link")]
    Symlink,
    #[error("it is neither a file nor a directory")]
    Special,
    #[error("it is encrypted")]
    Encrypted,
    #[error("it is packed in a way other than stored or deflate")]
    Method,
    #[error("it comes twice")]
    Twice,
    #[error("it differs from `{0}` in case only")]
    CaseOnly(String),
    #[error("it is a file and a directory at once")]
    FileAndDirectory,
    #[error("with it the files weigh more than {0} bytes")]
    TooLarge(u64),
    #[error("it unpacks to more than {0} times its size")]
    Ratio(u64),
    #[error("its bytes belong to another entry too")]
    Overlap,
    #[error("it is larger than it claims to be")]
    LongerThanDeclared,
    #[error("{0}")]
    Broken(String),
}

/// Unpacks a zip into a directory, at most `limit` bytes of files.
pub(crate) fn unpack(archive: &File, into: &Path, limit: u64) -> Result<Unpacked, UnpackError> {
    let mut archive = ZipIterable::try_new(BufReader::new(archive), Config::default())
        .map_err(|err| UnpackError::NotZip(said(&err)))?
        .enforce_header_consistency(true);
    if archive.len() > MAX_ENTRIES {
        return Err(UnpackError::TooManyEntries(archive.len()));
    }
    let files = archive.files().map_err(|err| UnpackError::NotZip(said(&err)))?;
    let mut entries = Vec::new();
    for raw in files.by_ref() {
        entries.push(raw.map_err(|err| UnpackError::NotZip(said(&err)))?);
    }
    let plan = plan(&entries, limit)?;
    fs::create_dir_all(into).map_err(|source| write_error(into, source))?;
    let mut unpacked = Unpacked::default();
    for (raw, entry) in entries.into_iter().zip(&plan) {
        let path = into.join(&entry.path);
        if entry.is_directory {
            make_directories(into, &entry.path)?;
            continue;
        }
        if let Some((parents, _)) = entry.path.rsplit_once('/') {
            make_directories(into, parents)?;
        }
        let broken = |err: ZipError| entry.refuse(Reason::Broken(said(&err)));
        let mut packed =
            raw.with_reader(files.reader_mut(), ZipReadOptions::new()).map_err(broken)?;
        let mut file = create(&path, entry.mode()).map_err(|source| write_error(&path, source))?;
        write_out(&mut packed, &mut file, entry, &path)?;
        unpacked.files += 1;
        unpacked.bytes += entry.size;
    }
    Ok(unpacked)
}

/// Looks at every entry before anything is written.
fn plan(entries: &[ZipFileEntry<'_>], limit: u64) -> Result<Vec<Entry>, UnpackError> {
    let mut tree = Tree::default();
    let mut plan = Vec::with_capacity(entries.len());
    let mut total = 0u64;
    for raw in entries {
        let entry = Entry::read(raw)?;
        tree.add(&entry.path, entry.is_directory).map_err(|reason| entry.refuse(reason))?;
        total = total.saturating_add(entry.size);
        if total > limit {
            return Err(entry.refuse(Reason::TooLarge(limit)));
        }
        plan.push(entry);
    }
    // Overlapping entries are how a small zip claims to hold much: see
    // "A better zip bomb" by David Fifield.
    let mut by_place: Vec<&Entry> = plan.iter().collect();
    by_place.sort_by_key(|entry| entry.begins);
    for pair in by_place.windows(2) {
        if pair[0].ends > pair[1].begins {
            return Err(pair[1].refuse(Reason::Overlap));
        }
    }
    Ok(plan)
}

/// Copies one entry, at most as many bytes as it claims to have.
fn write_out(
    packed: &mut impl Read,
    file: &mut File,
    entry: &Entry,
    path: &Path,
) -> Result<(), UnpackError> {
    let mut piece = vec![0; PIECE];
    let mut left = entry.size;
    loop {
        let count = match packed.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(err) if err.kind() == ErrorKind::Interrupted => continue,
            Err(err) => return Err(entry.refuse(Reason::Broken(err.to_string()))),
        };
        left = u64::try_from(count)
            .ok()
            .and_then(|count| left.checked_sub(count))
            .ok_or_else(|| entry.refuse(Reason::LongerThanDeclared))?;
        file.write_all(&piece[..count]).map_err(|source| write_error(path, source))?;
    }
    match left {
        0 => Ok(()),
        _ => Err(entry.refuse(Reason::Broken("it is shorter than it claims to be".to_owned()))),
    }
}

/// Makes each directory on the way, and takes none that is a link.
fn make_directories(root: &Path, relative: &str) -> Result<(), UnpackError> {
    let mut path = PathBuf::from(root);
    for segment in relative.split('/') {
        path.push(segment);
        match DirBuilder::new().mode(0o755).create(&path) {
            Ok(()) => {}
            Err(err) if err.kind() == ErrorKind::AlreadyExists => {
                let found =
                    fs::symlink_metadata(&path).map_err(|source| write_error(&path, source))?;
                if !found.is_dir() {
                    return Err(write_error(&path, ErrorKind::NotADirectory.into()));
                }
            }
            Err(source) => return Err(write_error(&path, source)),
        }
    }
    Ok(())
}

/// A new file, in the place of one that may lie there already.
fn create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    match options.open(path) {
        Err(err) if err.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

fn write_error(path: &Path, source: io::Error) -> UnpackError {
    UnpackError::Write { path: path.display().to_string(), source }
}

/// The library's words without its own heading.
fn said(err: &ZipError) -> String {
    let text = err.to_string();
    text.strip_prefix("invalid Zip archive: ").map_or_else(|| text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests;
