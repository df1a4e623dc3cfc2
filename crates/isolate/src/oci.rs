//! The tiers that an OCI runtime builds: `gvisor` by `runsc`, `runc` by `runc`.
//!
//! |           | `gvisor`                             | `runc`                              |
//! |-----------|--------------------------------------|-------------------------------------|
//! | kernel    | its own, in user space               | the host's, less some system calls  |
//! | root      | root of that kernel; nobody outside  | the host's root, few capabilities   |
//! | files     | read by a helper, written to memory and a nameless file | an overlay       |
//! | network   | its own loopback alone               | its own loopback alone              |
//! | memory    | limited as a whole: the sandbox ends | limited as a whole: a program ends  |
//! | processes | some more than the limit, then it ends | limited                           |
//! | processor | limited                              | limited                             |
//! | disk      | the host's                           | the host's                          |
//! | seen      | `/proc/meminfo` has the limit        | the host's numbers                  |
//! | `sudo`    | no: gVisor knows no set-id programs  | yes                                 |
//! | checkpoint| yes, with files; many restores       | refused                             |
//!
//! Sandboxes of these tiers end with their server.

mod bundle;
mod contained;
mod ground;
mod programs;
mod runtime;

use std::{
    fs::DirBuilder,
    os::unix::{fs::DirBuilderExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;
use wire::SandboxId;

use self::{contained::clear, ground::Ground, programs::Programs, runtime::Caller};
use crate::{
    Error, Limits, Privilege,
    native::cgroup::{Cgroup, Layout},
    places::sandboxes_below,
    walls::{Birth, Ended, Found, Identities, Instance, Listen, Plan, Walls},
};

pub use self::{contained::Contained, runtime::Runtime};

/// The runtime's own books. No sandbox can have this name.
const BOOKS: &str = ".runtime";
/// Threads of the host that gVisor uses besides those of its programs.
const RUNSC_THREADS: u32 = 256;
/// The layers with programs.
const PROGRAMS: &str = ".programs";

/// Builds containers below one directory.
pub struct Oci {
    root: PathBuf,
    caller: Caller,
    programs: Programs,
    tasks: TaskTracker,
}

impl Oci {
    /// Uses `root`, which nobody else uses.
    pub fn open(root: PathBuf, runtime: Runtime) -> Result<Oci, Error> {
        let program = runtime.find()?;
        let failed = |action| {
            let path = root.clone();
            move |source| Error::Directory { action, path, source }
        };
        let books = root.join(BOOKS);
        DirBuilder::new().mode(0o700).recursive(true).create(&books).map_err(failed("create"))?;
        // Runtimes and mounts want whole paths.
        let root = root.canonicalize().map_err(failed("find"))?;
        let layout = Layout::of_host(Privilege::Root).map_err(|source| Error::Host {
            what: "the cgroups of this host could not be read",
            source,
        })?;
        let caller = Caller { runtime, program, books: root.join(BOOKS), layout };
        let programs = Programs::open(root.join(PROGRAMS)).map_err(failed("empty"))?;
        Ok(Oci { root, caller, programs, tasks: TaskTracker::new() })
    }

    /// Starts a program in a container. On error nothing is left behind.
    pub async fn start(&self, plan: Plan<'_>) -> Result<Arc<Contained>, Error> {
        let bundle = self.root.join(plan.id.as_str());
        let command = self.caller.run(plan.id.as_str(), &bundle);
        self.launch(plan, command, "start the sandbox").await
    }

    /// Stores a sandbox, memory and files, in the directory `image`. It is over
    /// then, and can be restored any number of times.
    pub async fn checkpoint(&self, instance: &Contained, image: &Path) -> Result<(), Error> {
        self.can("checkpoint a sandbox")?;
        instance.checkpoint(image.to_owned()).await
    }

    /// Starts a sandbox from an image, which stays as it is. The plan is that of
    /// the sandbox it was made of, with a new name.
    pub async fn restore(&self, plan: Plan<'_>, image: &Path) -> Result<Arc<Contained>, Error> {
        self.can("restore a sandbox")?;
        let bundle = self.root.join(plan.id.as_str());
        let command = self.caller.restore(plan.id.as_str(), &bundle, image);
        self.launch(plan, command, "restore the sandbox").await
    }

    fn can(&self, what: &'static str) -> Result<(), Error> {
        match self.caller.runtime {
            Runtime::Runsc => Ok(()),
            Runtime::Runc => Err(Error::Unsupported { tier: self.caller.runtime.tier(), what }),
        }
    }

    async fn launch(
        &self,
        plan: Plan<'_>,
        command: Command,
        action: &'static str,
    ) -> Result<Arc<Contained>, Error> {
        let ground = Ground { state: self.root.join(plan.id.as_str()) };
        let mut root = plan.root;
        match self.programs.layer(plan.program) {
            Ok(layer) => root.layers.insert(0, layer),
            Err(source) => {
                return Err(Error::Spawn { program: plan.program.to_owned(), source });
            }
        }
        let birth = Birth {
            listen: Listen::Tunnel,
            groups: Vec::new(),
            memory: None,
            home: None,
            identities: Identities::Many,
        };
        let arguments = (plan.arguments)(&birth);
        let runtime = self.caller.runtime;
        let config = bundle::config(runtime, plan.id.as_str(), &arguments, plan.limits);
        let prepared = self.raise_groups(plan.id, plan.limits).and_then(|()| {
            ground.prepare(plan.id.as_str(), plan.limits, config.to_string().as_bytes())
        });
        let started = match prepared {
            Ok(()) => ground.inside(root, move || spawn(command)).await,
            Err(err) => Err(err),
        };
        let child = match started {
            Ok(child) => child,
            Err(source) => {
                // The failure that caused it is what the caller has to know.
                let _ = clear(&self.caller, plan.id, &ground).await;
                return Err(Error::Spawn { program: self.caller.program.clone(), source });
            }
        };
        let contained = Contained::new(plan.id, &self.caller, ground, child, &self.tasks);
        if let Err(err) = contained.come_up(action).await {
            if let Err(left) = contained.take_down().await {
                tracing::error!(sandbox.id = %plan.id, "sandbox {} was not removed whole: {left}", plan.id);
            }
            return Err(err);
        }
        Ok(Arc::new(contained))
    }

    /// Makes the groups, where the runtime does not. gVisor has a process of the
    /// host for every address space and a thread for every thread, and ends when
    /// it cannot have one more, so it may have more than its programs.
    fn raise_groups(&self, id: &SandboxId, limits: Limits) -> std::io::Result<()> {
        match self.caller.runtime {
            Runtime::Runsc => {
                let processes = limits.processes * 2 + RUNSC_THREADS;
                let limits = Limits { processes, ..limits };
                Cgroup::create(&self.caller.layout, id.as_str(), limits).map(|_| ())
            }
            Runtime::Runc => Ok(()),
        }
    }

    /// Nothing outlives a server here: what is found is removed.
    async fn look_around(&self) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        for (id, state) in sandboxes_below(&self.root)? {
            if let Err(err) = clear(&self.caller, &id, &Ground { state }).await {
                // The others must not suffer for it; the next start tries again.
                tracing::error!(sandbox.id = %id, "sandbox {id} was not cleared: {err}");
            }
            found.push(Found { id, state: Err(Ended::Lost) });
        }
        Ok(found)
    }
}

impl Walls for Oci {
    fn build<'a>(&'a self, plan: Plan<'a>) -> BoxFuture<'a, Result<Arc<dyn Instance>, Error>> {
        Box::pin(async move { Ok(self.start(plan).await? as Arc<dyn Instance>) })
    }

    fn find(&self) -> BoxFuture<'_, Result<Vec<Found>, Error>> {
        Box::pin(self.look_around())
    }

    fn layers(&self) -> Result<Vec<PathBuf>, Error> {
        Ok(Vec::new())
    }

    fn carries_network(&self) -> bool {
        false
    }

    fn limit_disks(&self, _: u32) -> Result<(), Error> {
        let tier = self.caller.runtime.tier();
        Err(Error::Unsupported { tier, what: "limit the disk" })
    }

    fn outlives_server(&self) -> bool {
        false
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.tasks.close();
            self.tasks.wait().await;
            self.programs.remove();
            // Not if the runtime still has something in its books.
            let _ = std::fs::remove_dir(&self.caller.books);
        })
    }
}

fn spawn(mut command: Command) -> std::io::Result<tokio::process::Child> {
    command
        // Its own group: a Ctrl-C at our terminal is not meant for it.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    tokio::process::Command::from(command).spawn()
}
