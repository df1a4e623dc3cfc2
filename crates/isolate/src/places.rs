//! Where things of ours and of the host are: the directories of sandboxes, and
//! programs that only root has in its path.

use std::{
    fs,
    path::{Path, PathBuf},
};

use wire::SandboxId;

use crate::Error;

/// Where root's programs are.
const SBIN: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];

/// A program of root's, where it usually is.
pub(crate) fn root_program(name: &str, exists: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    SBIN.iter().map(|directory| Path::new(directory).join(name)).find(|path| exists(path))
}

/// Every sandbox that has a directory below `root`, with that directory. What no
/// sandbox can be called is left out.
pub(crate) fn sandboxes_below(root: &Path) -> Result<Vec<(SandboxId, PathBuf)>, Error> {
    let failed = |source| Error::Directory { action: "read", path: root.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(root).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if let Some(id) = name.to_str().and_then(|name| SandboxId::parse(name).ok()) {
            found.push((id, entry.path()));
        }
    }
    Ok(found)
}
