//! Brings a root file system in: from a tarball or from a directory.
//!
//! Whatever the source says, nothing is written outside of the layer
//! (`layer` sees to that) and no device node is made. What would not serve as
//! a sandbox's root is refused.

mod archive;
mod copy;
#[cfg(test)]
pub(super) mod tests;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    layer::{Layer, LayerError, Owners},
    record::Defaults,
};

/// No account file is longer; what comes after is not looked at.
const PASSWD_LIMIT: u64 = 1024 * 1024;
/// Whose commands they are, where there is such an account.
const USER: &str = "user";

/// How far an import is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the source that were read.
    pub read_bytes: u64,
    /// How many there are.
    pub total_bytes: u64,
    /// Files, directories and links that were written.
    pub entries: u64,
    /// Device nodes, pipes and sockets that were left out.
    pub skipped: u64,
}

/// Why a source was not imported. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is not there, or not for us to read.
    #[error("cannot read {}", path.display())]
    Source {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is packed in a way we do not read.
    #[error("the source is packed with {packer}; unpack it with `{packer} -d` first")]
    Packed {
        /// The program that can unpack it.
        packer: &'static str,
    },
    /// It is no tarball, or a damaged one.
    #[error("the source is not a whole tar archive")]
    Archive(#[source] io::Error),
    /// It would be copied into itself.
    #[error("the source holds the templates themselves")]
    Recursive,
    /// It is no root file system.
    #[error("the source has no {0}, so no sandbox could run in it")]
    Missing(&'static str),
    /// One of its files cannot be had.
    #[error(transparent)]
    File(Box<dyn std::error::Error + Send + Sync>),
}

impl From<LayerError> for ImportError {
    fn from(error: LayerError) -> ImportError {
        ImportError::File(Box::new(error))
    }
}

/// What an import found.
#[derive(Debug)]
pub(super) struct Imported {
    pub(super) size_bytes: u64,
    pub(super) skipped: u64,
    pub(super) defaults: Defaults,
}

/// Fills the empty directory `root` from `source`, and says what it got.
pub(super) fn fill(
    root: &Path,
    source: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, ImportError> {
    let unread = |error| ImportError::Source { path: source.to_owned(), source: error };
    let mut layer = Layer::open(root, Owners::possible())?;
    let file = File::open(source).map_err(unread)?;
    let facts = file.metadata().map_err(unread)?;
    let done = if facts.is_dir() {
        let target = root.canonicalize().map_err(unread)?;
        if target.starts_with(source.canonicalize().map_err(unread)?) {
            return Err(ImportError::Recursive);
        }
        copy::copy(&mut layer, source, progress)?
    } else {
        archive::unpack(&mut layer, file, facts.len(), progress)?
    };
    Ok(Imported {
        size_bytes: layer.size_bytes(),
        skipped: done.skipped,
        defaults: defaults(&layer)?,
    })
}

/// The defaults of a root file system; an error if it cannot be one.
fn defaults(layer: &Layer) -> Result<Defaults, ImportError> {
    let is_file = |path| {
        layer
            .open_inside(path, OFlags::PATH)
            .and_then(rustix::fs::fstat)
            .is_ok_and(|stat| is_regular(stat.st_mode))
    };
    if !is_file("/bin/sh") {
        return Err(ImportError::Missing("/bin/sh"));
    }
    if !is_file("/etc/passwd") {
        return Err(ImportError::Missing("/etc/passwd"));
    }
    let unread = |source| ImportError::Source { path: "/etc/passwd".into(), source };
    let passwd =
        layer.open_inside("/etc/passwd", OFlags::RDONLY).map_err(|errno| unread(errno.into()))?;
    let mut text = Vec::new();
    File::from(passwd).take(PASSWD_LIMIT).read_to_end(&mut text).map_err(unread)?;
    let (user, workdir) = account(&String::from_utf8_lossy(&text));
    Ok(Defaults { user, workdir, envs: BTreeMap::new(), start_command: None })
}

/// `user` and its home, or root's where there is no `user`.
fn account(passwd: &str) -> (String, String) {
    let home = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            [name, _, _, _, _, home, _] if *name == USER && home.starts_with('/') => Some(*home),
            _ => None,
        }
    });
    match home {
        Some(home) => (USER.to_owned(), home.to_owned()),
        None => ("root".to_owned(), "/root".to_owned()),
    }
}

fn is_regular(mode: u32) -> bool {
    rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::RegularFile
}
