//! The `process` tier: a plain child in its own directory, without walls.
//!
//! ```text
//! <root>/<id>/door   the listening socket, made here, inherited by the child
//! <root>/<id>/home   the child's home
//! ```
//!
//! The child's standard input is the leash: its other end is held by us alone,
//! so when this process dies in any way the child reads the end of it and takes
//! itself down. The listening socket travels as standard output, because the
//! standard library hands those three descriptors over without unsafe code.

use std::{
    fs::{DirBuilder, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::DirBuilderExt, net::UnixListener, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Mutex,
    time::Duration,
};

use nix::{sys::signal::killpg, unistd::Pid};
use tokio::{
    net::UnixStream,
    process::{Child, ChildStdin, Command},
    sync::{Mutex as AsyncMutex, watch},
    time::timeout,
};
use tokio_util::task::TaskTracker;
use wire::SandboxId;

use crate::{Error, tree::kill_tree};

/// How long a child may take to clean up after itself before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Makes children below one directory.
pub struct Process {
    root: PathBuf,
    waits: TaskTracker,
}

/// A directory and a socket, before anything runs.
pub struct Prepared {
    directory: PathBuf,
    handle: File,
    listener: UnixListener,
    waits: TaskTracker,
}

/// A running child.
pub struct Instance {
    directory: PathBuf,
    /// Keeps the directory addressable as `/proc/self/fd/N`: a socket's path
    /// may have 108 bytes at most, and an operator's data directory may be longer.
    handle: File,
    pid: Pid,
    leash: Mutex<Option<ChildStdin>>,
    exit: watch::Receiver<Option<ExitStatus>>,
    /// Held while taking down, so that a second `kill` waits for the first.
    teardown: AsyncMutex<()>,
}

impl Process {
    /// The descriptor on which a child finds its listening socket.
    pub const LISTEN_FD: i32 = 1;

    /// Uses `root`, which nobody else uses, and removes what a former life
    /// left in it: its children ended with it, by their leash.
    pub fn open(root: PathBuf) -> Result<Process, Error> {
        let failed = |action| {
            let path = root.clone();
            move |source| Error::Directory { action, path, source }
        };
        match std::fs::remove_dir_all(&root) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(failed("empty")(err))?,
            _ => {}
        }
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&root);
        made.map_err(failed("create"))?;
        Ok(Process { root, waits: TaskTracker::new() })
    }

    /// Makes the directory and the socket. On error nothing is left behind.
    pub fn prepare(&self, id: &SandboxId) -> Result<Prepared, Error> {
        let directory = self.root.join(id.as_str());
        let prepared = prepare_in(&directory, &self.waits);
        if prepared.is_err() {
            let _ = std::fs::remove_dir_all(&directory);
        }
        prepared.map_err(|source| Error::Directory {
            action: "prepare",
            path: directory.clone(),
            source,
        })
    }

    /// Returns when every child has been waited for.
    pub async fn close(&self) {
        self.waits.close();
        self.waits.wait().await;
    }
}

fn prepare_in(directory: &Path, waits: &TaskTracker) -> io::Result<Prepared> {
    DirBuilder::new().mode(0o700).create(directory)?;
    DirBuilder::new().mode(0o755).create(directory.join("home"))?;
    let handle = File::open(directory)?;
    let listener = UnixListener::bind(door(&handle))?;
    Ok(Prepared { directory: directory.to_owned(), handle, listener, waits: waits.clone() })
}

fn door(directory: &File) -> PathBuf {
    format!("/proc/self/fd/{}/door", directory.as_raw_fd()).into()
}

impl Prepared {
    /// The child's home.
    pub fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    /// Starts `argv`. On error nothing is left behind.
    pub fn start(self, argv: &[String]) -> Result<Instance, Error> {
        let program = PathBuf::from(argv.first().map_or("", String::as_str));
        let spawned = spawn(argv, OwnedFd::from(self.listener));
        let mut child = match spawned {
            Ok(child) => child,
            Err(source) => {
                let _ = std::fs::remove_dir_all(&self.directory);
                return Err(Error::Spawn { program, source });
            }
        };
        let leash = child.stdin.take();
        let pid = Pid::from_raw(child.id().map_or(0, |id| id as i32));
        let (exited, exit) = watch::channel(None);
        self.waits.spawn(async move {
            let status = child.wait().await.unwrap_or_default();
            exited.send_replace(Some(status));
        });
        Ok(Instance {
            directory: self.directory,
            handle: self.handle,
            pid,
            leash: Mutex::new(leash),
            exit,
            teardown: AsyncMutex::new(()),
        })
    }
}

fn spawn(argv: &[String], listener: OwnedFd) -> io::Result<Child> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
    };
    let mut command = std::process::Command::new(program);
    command
        .args(arguments)
        // Its own group: a Ctrl-C at our terminal is not meant for it.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(listener)
        .current_dir("/");
    Command::from(command).spawn()
}

impl Instance {
    /// Opens a connection to the child's listening socket.
    pub async fn dial(&self) -> io::Result<UnixStream> {
        UnixStream::connect(door(&self.handle)).await
    }

    /// Waits until the child is gone, whatever the cause.
    pub async fn exited(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(status) => status.unwrap_or_default(),
            // The waiting task never drops its end without having sent.
            Err(_) => ExitStatus::default(),
        }
    }

    /// Ends the child and all that descends from it, and removes its files.
    /// Calling it twice is not an error.
    pub async fn kill(&self) -> Result<(), Error> {
        let _alone = self.teardown.lock().await;
        let leash = self.leash.lock().map(|mut leash| leash.take()).unwrap_or_default();
        drop(leash);
        let mut survivors = 0;
        if timeout(GRACE, self.exited()).await.is_err() {
            survivors = kill_tree(self.pid).await;
            let _ = killpg(self.pid, nix::sys::signal::SIGKILL);
            self.exited().await;
        }
        self.remove_directory().await?;
        if survivors > 0 {
            return Err(Error::Survivors { count: survivors });
        }
        Ok(())
    }

    async fn remove_directory(&self) -> Result<(), Error> {
        match tokio::fs::remove_dir_all(&self.directory).await {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Directory { action: "remove", path: self.directory.clone(), source })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
