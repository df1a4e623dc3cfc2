//! Layers that hold one program each, so that it is in a sandbox's file tree
//! without a mount of its own, which would show its path on the host.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Mutex,
};

use crate::removal::remove_tree;

/// The program inside, below the root.
pub(super) const PROGRAM: &str = "run/mayfly/init";

/// The layers, below one directory.
pub(super) struct Programs {
    directory: PathBuf,
    /// Held while a layer is written, so that none is used half written.
    writing: Mutex<()>,
}

impl Programs {
    /// Uses `directory`, which nobody else uses. What a former server left in it
    /// is of the same kind, and is removed.
    pub(super) fn open(directory: PathBuf) -> io::Result<Programs> {
        remove_tree(&directory)?;
        DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(Programs { directory, writing: Mutex::default() })
    }

    /// Removes the layers. Those that sandboxes still use stay usable for them.
    pub(super) fn remove(&self) {
        if let Err(err) = remove_tree(&self.directory) {
            tracing::warn!("{} was not removed: {err}", self.directory.display());
        }
    }

    /// The layer with this program. A program that was replaced on the host is
    /// another file, and gets another layer.
    pub(super) fn layer(&self, program: &Path) -> io::Result<PathBuf> {
        let file = fs::metadata(program)?;
        let changed = (file.mtime(), file.mtime_nsec());
        let name = format!("{}-{}-{}-{}", file.dev(), file.ino(), changed.0, changed.1);
        let layer = self.directory.join(name);
        let _alone = self.writing.lock();
        if !layer.exists() {
            let unfinished = self.directory.join("unfinished");
            write(&unfinished, program)
                .and_then(|()| fs::rename(&unfinished, &layer))
                .inspect_err(|_| {
                    // The next one would stumble over it.
                    let _ = remove_tree(&unfinished);
                })?;
        }
        Ok(layer)
    }
}

fn write(layer: &Path, program: &Path) -> io::Result<()> {
    let place = layer.join(PROGRAM);
    let parent = place.parent().unwrap_or(layer);
    fs::create_dir_all(parent)?;
    // Whatever our umask is: these are seen from inside.
    for directory in parent.ancestors().take_while(|directory| directory.starts_with(layer)) {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    fs::copy(program, &place)?;
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{PROGRAM, Programs};

    #[test]
    fn a_program_has_one_layer_until_it_changes() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        let programs = Programs::open(place.path().join("layers")).unwrap();
        assert!(programs.layer(&program).is_err());
        fs::write(&program, "one").unwrap();
        let first = programs.layer(&program).unwrap();
        assert_eq!(programs.layer(&program).unwrap(), first);
        fs::remove_file(&program).unwrap();
        fs::write(&program, "two").unwrap();
        let second = programs.layer(&program).unwrap();
        assert_eq!(fs::read_to_string(first.join(PROGRAM)).unwrap(), "one");
        assert_eq!(fs::read_to_string(second.join(PROGRAM)).unwrap(), "two");
    }
}
