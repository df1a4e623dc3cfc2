//! The file tree of one sandbox: an overlay in a mount namespace that nobody
//! else has, so the host's own tree shows none of it and it goes away with the
//! sandbox's last process.
//!
//! ```text
//! <state>/config.json   what the runtime is asked for
//! <state>/meminfo       the limit on memory, as `/proc/meminfo` shows it
//! <state>/rootfs        where the tree is mounted, empty from outside
//! <state>/upper, work   the topmost layer: the sandbox's own name
//! <state>/usr-upper, …  the same below `/usr`, when that is the host's
//! ```
//!
//! A namespace belongs to a thread. One that is made for this purpose leaves
//! the host's, mounts, starts the runtime and ends; the runtime inherits it.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

use crate::{Limits, removal::remove_tree, seen, walls::Root};

/// What programs inside size themselves by, relative to the state directory.
pub(super) const MEMINFO: &str = "meminfo";

/// The directories of one sandbox.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub(super) state: PathBuf,
}

impl Ground {
    /// Makes the directories and the files that name the sandbox.
    pub(super) fn prepare(&self, id: &str, limits: Limits, config: &[u8]) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.state)?;
        let directories = ["rootfs", "upper", "work", "usr-upper", "usr-work"];
        for name in directories.into_iter().chain(["upper/etc"]) {
            let path = self.state.join(name);
            fs::create_dir(&path)?;
            // Whatever our umask is: these are seen from inside.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        let identity =
            seen::identity(id, &[]).map(|(name, text)| (format!("upper/etc/{name}"), text));
        let meminfo = (MEMINFO.to_owned(), seen::meminfo(limits.memory_mib));
        for (name, content) in identity.into_iter().chain([meminfo]) {
            let path = self.state.join(name);
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        fs::write(self.state.join("config.json"), config)
    }

    /// Runs `work` where the tree is mounted and nobody else sees it.
    pub(super) async fn inside<T: Send + 'static>(
        &self,
        root: Root,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = tokio::sync::oneshot::channel();
        let ground = self.clone();
        let handle = tokio::runtime::Handle::current();
        std::thread::Builder::new().name("oci".to_owned()).spawn(move || {
            let _runtime = handle.enter();
            let outcome = ground.mount(&root).and_then(|()| work());
            // A caller that has gone away does not want it.
            let _ = done.send(outcome);
        })?;
        result.await.map_err(io::Error::other)?
    }

    fn mount(&self, root: &Root) -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        // Unmounts of the host reach us, so that we hold up none; ours stay here.
        let slave = MsFlags::MS_SLAVE | MsFlags::MS_REC;
        mount(None::<&str>, "/", None::<&str>, slave, None::<&str>)?;
        let rootfs = self.state.join("rootfs");
        self.overlay(&root.layers, ["upper", "work"], &rootfs)?;
        if let Some(host_usr) = &root.host_usr {
            let layers: Vec<PathBuf> =
                host_usr.over.iter().cloned().chain(["/usr".into()]).collect();
            self.overlay(&layers, ["usr-upper", "usr-work"], &rootfs.join("usr"))?;
        }
        Ok(())
    }

    /// Layers are named by descriptor: paths of any length and with any
    /// character fit, and the sandbox's mountinfo shows no path of the host.
    fn overlay(&self, layers: &[PathBuf], own: [&str; 2], place: &Path) -> io::Result<()> {
        let lowers = layers.iter().map(File::open).collect::<io::Result<Vec<_>>>()?;
        let own = own.map(|name| self.state.join(name));
        let [upper, work] = [File::open(&own[0])?, File::open(&own[1])?];
        let name = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());
        let lower: Vec<String> = lowers.iter().map(name).collect();
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.join(":"),
            name(&upper),
            name(&work)
        );
        let flags = MsFlags::MS_NODEV;
        Ok(mount(Some("overlay"), place, Some("overlay"), flags, Some(options.as_str()))?)
    }

    /// Removes the directories.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove_tree(&self.state)
    }
}
