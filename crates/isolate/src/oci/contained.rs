//! One running container: the runtime's process, the tunnel into it, its end.
//!
//! The runtime's standard input and output are the program's. We hold the other
//! ends: when this process dies in any way, the program reads the end of its
//! input and ends, and the runtime's process, which waits for it, takes the
//! container down. What then is left are directories, for the next server.

use std::{
    io,
    process::ExitStatus,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::UnixStream,
    process::{Child, ChildStdin},
    sync::{Mutex as AsyncMutex, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tunnel::{Opener, Parting};
use wire::SandboxId;

use super::{ground::Ground, runtime::Caller};
use crate::{
    Error, Network,
    walls::{Ended, Instance},
};

/// How long a program may take to end when its input does.
const GRACE: Duration = Duration::from_secs(2);
/// How long a runtime may take to go once its container is deleted.
const RUNTIME_END: Duration = Duration::from_secs(10);
/// Bytes kept of what the runtime or the program say on standard error.
const LAST_WORDS: usize = 4096;
/// What a shell and the runtimes make of a program that got SIGKILL.
const KILLED: i32 = 128 + 9;

/// A program in a container.
pub struct Contained {
    id: SandboxId,
    caller: Caller,
    ground: Ground,
    opener: Opener,
    /// Drops our ends of the pipes.
    hang_up: CancellationToken,
    finished: watch::Receiver<Option<Session>>,
    exit: watch::Receiver<Option<ExitStatus>>,
    words: Arc<Mutex<Vec<u8>>>,
    /// Held while taking down, so that a second `kill` waits for the first.
    teardown: AsyncMutex<()>,
}

/// How the tunnel's session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Finished,
    Broken,
}

impl Contained {
    /// Takes over a runtime's process that was just started.
    pub(super) fn new(
        id: &SandboxId,
        caller: &Caller,
        ground: Ground,
        mut child: Child,
        tasks: &TaskTracker,
    ) -> Contained {
        let hang_up = CancellationToken::new();
        let words = Arc::default();
        let (opener, orders) = tunnel::opening();
        let (finish, finished) = watch::channel(None);
        let (exited, exit) = watch::channel(None);
        // Connections break only after the runtime's process has ended, so that
        // whoever sees them break can ask why.
        let (silence, until_exit) = tokio::io::duplex(1);
        if let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) {
            let output = output.chain(silence);
            tasks.spawn(converse(input, output, orders, finish, hang_up.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            tasks.spawn(remember(stderr, Arc::clone(&words)));
        }
        let name = id.clone();
        tasks.spawn(async move {
            match child.wait().await {
                Ok(status) => _ = exited.send_replace(Some(status)),
                Err(err) => tracing::error!("cannot wait for the runtime of {name}: {err}"),
            }
            drop(until_exit);
        });
        let (id, caller) = (id.clone(), caller.clone());
        let teardown = AsyncMutex::default();
        Contained { id, caller, ground, opener, hang_up, finished, exit, words, teardown }
    }

    /// Returns when the program is there, or says why it never will be.
    pub(super) async fn come_up(&self, action: &'static str) -> Result<(), Error> {
        tokio::select! {
            ready = self.opener.ready() => if ready.is_ok() { return Ok(()) },
            _ = self.exited() => {}
        }
        // Its words are complete when it has ended.
        let _ = timeout(GRACE, self.exited()).await;
        Err(self.failed(action))
    }

    /// Stores the sandbox, memory and files, in `image` and ends it.
    pub(super) async fn checkpoint(&self, image: std::path::PathBuf) -> Result<(), Error> {
        const ACTION: &str = "checkpoint the sandbox";
        // At a frame's edge, so that what is restored can speak to new pipes.
        self.opener.finish().await;
        let mut finished = self.finished.clone();
        let session = timeout(GRACE, finished.wait_for(Option::is_some)).await;
        if !matches!(session, Ok(Ok(session)) if *session == Some(Session::Finished)) {
            let detail = "the sandbox did not finish its tunnel".to_owned();
            return Err(Error::Runtime { runtime: self.runtime(), action: ACTION, detail });
        }
        let (caller, id) = (self.caller.clone(), self.id.to_string());
        let call = tokio::task::spawn_blocking(move || caller.checkpoint(&id, &image));
        let output = call.await.unwrap_or_else(|err| Err(io::Error::other(err)));
        let output = output.map_err(|source| self.not_spawned(source))?;
        if !output.status.success() {
            let detail = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Runtime { runtime: self.runtime(), action: ACTION, detail });
        }
        self.take_down().await
    }

    fn failed(&self, action: &'static str) -> Error {
        let words = self.words.lock().map(|words| words.clone()).unwrap_or_default();
        let detail = String::from_utf8_lossy(&words).trim().to_owned();
        Error::Runtime { runtime: self.runtime(), action, detail }
    }

    fn not_spawned(&self, source: io::Error) -> Error {
        Error::Spawn { program: self.caller.program.clone(), source }
    }

    fn runtime(&self) -> &'static str {
        self.caller.runtime.name()
    }

    async fn exited(&self) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        // The waiting task ends without a word only if it could not wait.
        exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit)
    }

    /// Ends and removes everything.
    pub(super) async fn take_down(&self) -> Result<(), Error> {
        let _alone = self.teardown.lock().await;
        self.hang_up.cancel();
        let ended = timeout(GRACE, self.exited()).await.is_ok();
        let removed = clear(&self.caller, &self.id, &self.ground).await;
        if !ended && timeout(RUNTIME_END, self.exited()).await.is_err() {
            return Err(Error::Survivors { count: 1 });
        }
        removed
    }
}

impl Instance for Contained {
    fn dial(&self) -> BoxFuture<'_, io::Result<UnixStream>> {
        Box::pin(self.opener.open())
    }

    fn ended(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            let status = self.exited().await;
            if self.hang_up.is_cancelled() {
                return Ended::Killed;
            }
            match status.and_then(|status| status.code()) {
                // Nothing inside can send that signal to its own init: it was
                // the host, and what it does so for is memory.
                Some(KILLED) => Ended::OutOfMemory,
                Some(_) => Ended::Exited,
                None => Ended::Lost,
            }
        })
    }

    /// The server alone guards it, and it ends with the server.
    fn set_deadline(&self, _: u64) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn set_network<'a>(&'a self, _: &'a Network) -> BoxFuture<'a, Result<(), Error>> {
        let tier = self.caller.runtime.tier();
        Box::pin(async move {
            Err(Error::Unsupported {
                tier,
                what: "give a sandbox a network yet; use tier `native`",
            })
        })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.take_down())
    }
}

/// Removes what a container that is over, or shall be, has left.
pub(super) async fn clear(caller: &Caller, id: &SandboxId, ground: &Ground) -> Result<(), Error> {
    let (caller, id, ground) = (caller.clone(), id.to_string(), ground.clone());
    let clearing = tokio::task::spawn_blocking(move || {
        let deleted = if caller.knows(&id) { delete(&caller, &id) } else { Ok(()) };
        let groups = caller.groups(&id).map(|groups| groups.remove()).unwrap_or_default();
        let path = ground.state.clone();
        let removed = ground.remove();
        deleted?;
        removed.map_err(|source| Error::Directory { action: "remove", path, source })?;
        if groups.is_empty() { Ok(()) } else { Err(Error::CgroupsLeft(groups)) }
    });
    clearing.await.unwrap_or(Err(Error::Survivors { count: 0 }))
}

fn delete(caller: &Caller, id: &str) -> Result<(), Error> {
    let program = caller.program.clone();
    let output = caller.delete(id).map_err(|source| Error::Spawn { program, source })?;
    if output.status.success() || !caller.knows(id) {
        return Ok(());
    }
    let detail = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let runtime = caller.runtime.name();
    Err(Error::Runtime { runtime, action: "delete the sandbox", detail })
}

/// Carries connections. The pipes stay open after a finished session, since the
/// end of the program's input would be its own end.
async fn converse(
    mut input: ChildStdin,
    mut output: impl AsyncRead + Unpin,
    orders: tunnel::Orders,
    finish: watch::Sender<Option<Session>>,
    hang_up: CancellationToken,
) {
    let session = tokio::select! {
        parting = tunnel::open_side(&mut output, &mut input, orders) => match parting {
            Parting::Finished => Session::Finished,
            Parting::Gone => Session::Broken,
            Parting::Failed(err) => {
                tracing::warn!("a sandbox's tunnel broke: {err}");
                Session::Broken
            }
        },
        () = hang_up.cancelled() => return,
    };
    finish.send_replace(Some(session));
    if session == Session::Finished {
        hang_up.cancelled().await;
    }
}

/// Keeps the last of what is said, and lets nobody wait who says more.
async fn remember(mut stderr: impl AsyncRead + Unpin, words: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        if let Ok(mut words) = words.lock() {
            words.extend(&buffer[..length]);
            let excess = words.len().saturating_sub(LAST_WORDS);
            words.drain(..excess);
        }
    }
}
