//! The agent's program in every sandbox with a file tree of its own: a read-only
//! layer above the template's, so that no template shadows it. Without such a
//! tree the program is run from where it lies on the host.
//!
//! ```text
//! <layers>/<hash of the program>/opt/mayfly/agent
//! ```
//!
//! A layer is made once for each program, and stays for as long as somebody
//! who outlived a former server has it below its root.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use isolate::remove_tree;
use sha2::{Digest, Sha256};

/// The program, below the root of its layer.
const PROGRAM: &str = "opt/mayfly/agent";
/// How the name of a layer ends that is not whole yet.
const PARTIAL: &str = "partial";

/// The agent cannot be put into sandboxes.
#[derive(Debug, thiserror::Error)]
#[error("cannot offer the agent {}", program.display())]
pub struct AgentError {
    program: PathBuf,
    source: io::Error,
}

/// Where the agent is.
#[derive(Clone, Debug)]
pub(crate) enum Agent {
    /// On the host.
    Host(PathBuf),
    /// In a layer of its own.
    Layer(PathBuf),
}

impl Agent {
    /// Puts `program` into a layer below `layers`, unless it is there.
    pub(crate) fn in_layer(program: &Path, layers: &Path) -> Result<Agent, AgentError> {
        make_layer(program, layers)
            .map(Agent::Layer)
            .map_err(|source| AgentError { program: program.to_owned(), source })
    }

    /// The program's path, as seen in a sandbox.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Agent::Host(path) => path.clone(),
            Agent::Layer(_) => Path::new("/").join(PROGRAM),
        }
    }

    /// The layer that a sandbox needs for it.
    pub(crate) fn layer(&self) -> Option<&Path> {
        match self {
            Agent::Host(_) => None,
            Agent::Layer(layer) => Some(layer),
        }
    }

    /// Removes the layers of former programs that nobody uses.
    pub(crate) fn prune(&self, in_use: &[PathBuf]) -> io::Result<()> {
        let Some((current, layers)) = self.layer().zip(self.layer().and_then(Path::parent)) else {
            return Ok(());
        };
        for entry in fs::read_dir(layers)? {
            let layer = entry?.path();
            if layer != current && !in_use.contains(&layer) {
                remove_tree(&layer)?;
            }
        }
        Ok(())
    }
}

fn make_layer(program: &Path, layers: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(layers)?;
    let content = fs::read(program)?;
    let hash = wire::hex(&Sha256::digest(&content)[..16]);
    let layer = layers.join(&hash);
    if layer.exists() {
        return Ok(layer);
    }
    let partial = layers.join(format!("{hash}.{PARTIAL}"));
    remove_tree(&partial)?;
    write(&partial, &content)?;
    fs::rename(&partial, &layer)?;
    Ok(layer)
}

fn write(layer: &Path, content: &[u8]) -> io::Result<()> {
    let program = layer.join(PROGRAM);
    let parent = program.parent().unwrap_or(layer);
    fs::create_dir_all(parent)?;
    // Whatever our umask is: these are seen from inside.
    for directory in parent.ancestors().take_while(|directory| directory.starts_with(layer)) {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    fs::write(&program, content)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Agent, PROGRAM};

    #[test]
    fn an_agent_has_one_layer_until_it_changes_and_old_ones_go_when_nobody_uses_them() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        let layers = place.path().join("agent");
        assert!(Agent::in_layer(&program, &layers).is_err());
        fs::write(&program, "one").unwrap();
        let first = Agent::in_layer(&program, &layers).unwrap();
        assert_eq!(Agent::in_layer(&program, &layers).unwrap().layer(), first.layer());
        assert_eq!(first.path(), Path::new("/opt/mayfly/agent"));
        fs::write(&program, "two").unwrap();
        let second = Agent::in_layer(&program, &layers).unwrap();
        let [old, new] = [&first, &second].map(|agent| agent.layer().unwrap().to_owned());
        assert_eq!(fs::read_to_string(old.join(PROGRAM)).unwrap(), "one");
        assert_eq!(fs::read_to_string(new.join(PROGRAM)).unwrap(), "two");
        second.prune(std::slice::from_ref(&old)).unwrap();
        assert!(old.exists());
        second.prune(&[]).unwrap();
        assert!(!old.exists() && new.exists());
    }
}
