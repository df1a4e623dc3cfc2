//! Blobs as files below one directory.
//!
//! A file appears under its name when it is whole and on the disk. Until then
//! it is `name#1`, `name#2`, …: that is how `object_store` calls what it has
//! not finished, and how the next start knows what an interrupted one left.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use object_store::local::LocalFileSystem;

use super::OpenBlobsError;

/// Makes the directory, removes what was left behind, and opens it.
pub(super) fn open(directory: &Path) -> Result<LocalFileSystem, OpenBlobsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| OpenBlobsError::Directory { path: directory.to_owned(), source })?;
    remove_unfinished(directory)?;
    let store = LocalFileSystem::new_with_prefix(directory).map_err(OpenBlobsError::Setup)?;
    // A row says that the blob is there, so it is on the disk before the row.
    Ok(store.with_fsync(true))
}

fn remove_unfinished(directory: &Path) -> Result<(), OpenBlobsError> {
    let failed = |path: &Path, source| OpenBlobsError::Directory { path: path.to_owned(), source };
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).map_err(|error| failed(&directory, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed(&directory, error))?;
            let kind = entry.file_type().map_err(|error| failed(&entry.path(), error))?;
            let path: PathBuf = entry.path();
            if kind.is_dir() {
                directories.push(path);
            } else if is_unfinished(&entry.file_name().to_string_lossy()) {
                match fs::remove_file(&path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(failed(&path, error)),
                }
            }
        }
    }
    Ok(())
}

pub(super) fn is_unfinished(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, number)| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::is_unfinished;

    #[test]
    fn only_a_number_behind_the_last_mark_is_unfinished() {
        for (name, unfinished) in
            [("a#1", true), ("a#h0#12", true), ("a#", false), ("a#h1", false), ("1", false)]
        {
            assert_eq!(is_unfinished(name), unfinished, "{name}");
        }
    }
}
