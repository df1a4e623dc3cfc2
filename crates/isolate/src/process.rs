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
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use nix::{sys::signal::killpg, unistd::Pid};
use tokio::{
    net::UnixStream,
    process::{Child, ChildStdin, Command},
    sync::{Mutex as AsyncMutex, watch},
    time::timeout,
};
use tokio_util::task::TaskTracker;
use wire::SandboxId;

use crate::{
    Error, Network, Tier,
    removal::remove_tree,
    tree::kill_tree,
    walls::{Birth, Ended, Found, Identities, Instance, Listen, Plan, Walls},
};

/// How long a child may take to clean up after itself before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Makes children below one directory.
pub struct Process {
    root: PathBuf,
    waits: TaskTracker,
}

/// A directory and a socket, before anything runs.
struct Prepared {
    directory: PathBuf,
    handle: File,
    listener: UnixListener,
    waits: TaskTracker,
}

/// A running child.
struct Running {
    directory: PathBuf,
    /// Keeps the directory addressable as `/proc/self/fd/N`: a socket's path
    /// may have 108 bytes at most, and an operator's data directory may be longer.
    handle: File,
    pid: Pid,
    leash: Mutex<Option<ChildStdin>>,
    exit: watch::Receiver<bool>,
    /// Held while taking down, so that a second `kill` waits for the first.
    teardown: AsyncMutex<()>,
}

impl Process {
    /// The descriptor on which a child finds its listening socket.
    const LISTEN_FD: i32 = 1;

    /// Uses `root`, which nobody else uses, and removes what a former life
    /// left in it: its children ended with it, by their leash.
    pub fn open(root: PathBuf) -> Result<Process, Error> {
        let failed = |action| {
            let path = root.clone();
            move |source| Error::Directory { action, path, source }
        };
        remove_tree(&root).map_err(failed("empty"))?;
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&root);
        made.map_err(failed("create"))?;
        Ok(Process { root, waits: TaskTracker::new() })
    }

    /// Makes the directory and the socket. On error nothing is left behind.
    fn prepare(&self, id: &SandboxId) -> Result<Prepared, Error> {
        let directory = self.root.join(id.as_str());
        let prepared = prepare_in(&directory, &self.waits);
        if prepared.is_err() {
            let _ = remove_tree(&directory);
        }
        prepared.map_err(|source| Error::Directory {
            action: "prepare",
            path: directory.clone(),
            source,
        })
    }

    fn start(&self, plan: &Plan<'_>) -> Result<Running, Error> {
        let prepared = self.prepare(plan.id)?;
        let birth = Birth {
            listen: Listen::Descriptor(Self::LISTEN_FD),
            groups: Vec::new(),
            memory: None,
            home: Some(prepared.directory.join("home")),
            identities: Identities::Many,
        };
        prepared.start(plan.program, &(plan.arguments)(&birth))
    }
}

impl Walls for Process {
    fn build<'a>(&'a self, plan: Plan<'a>) -> BoxFuture<'a, Result<Arc<dyn Instance>, Error>> {
        Box::pin(async move { Ok(Arc::new(self.start(&plan)?) as Arc<dyn Instance>) })
    }

    /// Nothing outlives a server in this tier.
    fn find(&self) -> BoxFuture<'_, Result<Vec<Found>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn layers(&self) -> Result<Vec<PathBuf>, Error> {
        Ok(Vec::new())
    }

    fn carries_network(&self) -> bool {
        false
    }

    fn limit_disks(&self, _: u32) -> Result<(), Error> {
        Err(Error::Unsupported { tier: Tier::Process, what: "limit the disk" })
    }

    fn outlives_server(&self) -> bool {
        false
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.waits.close();
            self.waits.wait().await;
        })
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
    /// Starts the program. On error nothing is left behind.
    fn start(self, program: &Path, arguments: &[String]) -> Result<Running, Error> {
        let spawned = spawn(program, arguments, OwnedFd::from(self.listener));
        let mut child = match spawned {
            Ok(child) => child,
            Err(source) => {
                let _ = remove_tree(&self.directory);
                return Err(Error::Spawn { program: program.to_owned(), source });
            }
        };
        let leash = child.stdin.take();
        let pid = Pid::from_raw(child.id().map_or(0, |id| id as i32));
        let (exited, exit) = watch::channel(false);
        self.waits.spawn(async move {
            if let Err(err) = child.wait().await {
                tracing::error!("cannot wait for process {pid}: {err}");
            }
            exited.send_replace(true);
        });
        Ok(Running {
            directory: self.directory,
            handle: self.handle,
            pid,
            leash: Mutex::new(leash),
            exit,
            teardown: AsyncMutex::new(()),
        })
    }
}

/// The first argument is the program's own name, as everywhere.
fn spawn(program: &Path, arguments: &[String], listener: OwnedFd) -> io::Result<Child> {
    let mut command = std::process::Command::new(program);
    command
        .args(arguments.iter().skip(1))
        // Its own group: a Ctrl-C at our terminal is not meant for it.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(listener)
        .current_dir("/");
    Command::from(command).spawn()
}

impl Instance for Running {
    fn dial(&self) -> BoxFuture<'_, io::Result<UnixStream>> {
        Box::pin(UnixStream::connect(door(&self.handle)))
    }

    fn ended(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            self.exited().await;
            Ended::Exited
        })
    }

    /// The server alone guards it, and it ends with the server.
    fn set_deadline(&self, _: u64) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    /// It has the host's.
    fn set_network<'a>(&'a self, _: &'a Network) -> BoxFuture<'a, Result<(), Error>> {
        let what = "change a sandbox's network: it has the host's";
        Box::pin(async move { Err(Error::Unsupported { tier: Tier::Process, what }) })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.take_down())
    }
}

impl Running {
    async fn exited(&self) {
        // The waiting task does not drop its end without having sent.
        let _ = self.exit.clone().wait_for(|exited| *exited).await;
    }

    async fn take_down(&self) -> Result<(), Error> {
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
        let directory = self.directory.clone();
        let removing = tokio::task::spawn_blocking(move || remove_tree(&directory)).await;
        removing.unwrap_or_else(|broken| Err(io::Error::other(broken))).map_err(|source| {
            Error::Directory { action: "remove", path: self.directory.clone(), source }
        })
    }
}

#[cfg(test)]
mod tests;
