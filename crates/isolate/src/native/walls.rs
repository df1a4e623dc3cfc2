//! The server's half of the `native` tier: it starts keepers, finds them again
//! after a restart, and removes what a dead one left.

use std::{
    fs::{DirBuilder, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::DirBuilderExt,
            net::{UnixListener, UnixStream as StdStream},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::Command,
    sync::{Mutex as AsyncMutex, mpsc, watch},
};
use tokio_util::task::TaskTracker;
use wire::SandboxId;

use super::{
    cgroup::{Cgroup, Layout},
    disk::hand_over,
    image::Image,
    link::{Place, Wired, retire},
    network,
    range::{Range, Ranges},
    spec::{Cause, Exit, Privilege, Spec},
    stock::Stock,
    trial,
};
use crate::{
    Error, Network, Tier,
    places::sandboxes_below,
    removal::remove_tree,
    walls::{Birth, Ended, Found, Identities, Instance, Listen, Plan, Walls},
};

/// Blank disks, in the directory of all sandboxes. No sandbox can have this name.
const DISKS: &str = ".disks";
/// How long a keeper may take to take its sandbox down. Most end within
/// milliseconds; a million small files on a slow disk take minutes to remove.
const KEEPER_END: Duration = Duration::from_secs(300);

/// How long a keeper may take to lay or change a link.
const KEEPER_ANSWER: Duration = Duration::from_secs(15);

/// Builds sandboxes below one directory.
pub struct Native {
    root: PathBuf,
    keeper: PathBuf,
    privilege: Privilege,
    layout: Layout,
    place: Place,
    wired: Option<Wired>,
    ranges: Ranges,
    stock: Arc<Stock>,
    waits: TaskTracker,
}

impl Native {
    /// Uses `root`, which nobody else uses. Sandboxes in it may be alive. On a
    /// host that is wired for it sandboxes can have a network. Without root it
    /// is tried first whether there can be walls at all.
    pub fn open(root: PathBuf, keeper: PathBuf, wired: Option<Wired>) -> Result<Native, Error> {
        let failed = |source| Error::Directory { action: "create", path: root.clone(), source };
        DirBuilder::new().mode(0o711).recursive(true).create(&root).map_err(failed)?;
        let privilege = Privilege::of_process();
        match privilege {
            Privilege::Root => {}
            Privilege::User => trial::ask(&keeper)?,
        }
        let layout = Layout::of_host(privilege).map_err(|source| Error::Host {
            what: "the cgroups of this host could not be read",
            source,
        })?;
        let place = Place::of(&root);
        let ranges = Ranges::shuffled();
        let stock = Arc::new(Stock::open(root.join(DISKS))?);
        let waits = TaskTracker::new();
        Ok(Native { root, keeper, privilege, layout, place, wired, ranges, stock, waits })
    }

    async fn start(&self, plan: Plan<'_>) -> Result<Arc<dyn Instance>, Error> {
        let state = self.root.join(plan.id.as_str());
        let range = match self.privilege {
            Privilege::Root => Some(self.ranges.take()?),
            Privilege::User => None,
        };
        let groups = self.layout.trees();
        let birth = Birth {
            listen: Listen::Descriptor(3),
            groups: (4..).take(groups).collect(),
            memory: (4..).nth(groups).filter(|_| self.layout.counts_memory_kills()),
            home: None,
            identities: match self.privilege {
                Privilege::Root => Identities::Many,
                Privilege::User => Identities::One,
            },
        };
        let mib = plan.limits.disk_mib;
        let blank = if mib == 0 { None } else { Some(self.stock.blank(mib)?) };
        let disk = self.stock.take(mib);
        let spec = Spec {
            id: plan.id.to_string(),
            program: plan.program.to_owned(),
            arguments: (plan.arguments)(&birth),
            layers: plan.root.layers,
            host_usr: plan.root.host_usr,
            privilege: self.privilege,
            first_id: range.as_ref().map_or_else(own_id, Range::first_id),
            limits: plan.limits,
            deadline_ms: plan.deadline_ms,
            blank,
            disk_follows: disk.is_some(),
            link: self.wired.as_ref().zip(range.as_ref()).map(|(wired, it)| wired.link(it.number)),
            without: Vec::new(),
        };
        match self.launch(&state, &spec, disk) {
            Ok((handle, keeper)) => {
                self.fill_stock(mib);
                Ok(Arc::new(Kept::new(self, plan.id, state, handle, keeper, range)))
            }
            Err(source) => {
                let _ = remove_tree(&state);
                Err(Error::Spawn { program: self.keeper.clone(), source })
            }
        }
    }

    /// Makes both sockets and the keeper. Connections wait in their queues, so
    /// nobody has to wait for the keeper to come up.
    fn launch(
        &self,
        state: &Path,
        spec: &Spec,
        disk: Option<Image>,
    ) -> io::Result<(File, UnixStream)> {
        DirBuilder::new().mode(0o700).create(state)?;
        let handle = File::open(state)?;
        let text = serde_json::to_vec(spec).map_err(io::Error::other)?;
        std::fs::write(state.join("spec.json"), text)?;
        let door = UnixListener::bind(in_state(&handle, "door"))?;
        let talk = UnixListener::bind(in_state(&handle, "keeper"))?;
        if let Some(disk) = disk {
            // The first connection, as the keeper expects it.
            hand_over(disk, &StdStream::connect(in_state(&handle, "keeper"))?)?;
        }
        let keeper = StdStream::connect(in_state(&handle, "keeper"))?;
        keeper.set_nonblocking(true)?;
        let mut command = std::process::Command::new(&self.keeper);
        command
            .arg(state)
            .env_clear()
            .process_group(0)
            .stdin(OwnedFd::from(talk))
            .stdout(OwnedFd::from(door))
            .current_dir("/");
        let mut child = Command::from(command).spawn()?;
        self.waits.spawn(async move {
            if let Err(err) = child.wait().await {
                tracing::error!("cannot wait for a keeper: {err}");
            }
        });
        Ok((handle, UnixStream::from_std(keeper)?))
    }

    /// Makes disks for the next ones, if disks have a size.
    fn fill_stock(&self, mib: u32) {
        if mib > 0 {
            let stock = Arc::clone(&self.stock);
            self.waits.spawn_blocking(move || stock.fill(mib));
        }
    }

    fn open_state(&self, state: &Path) -> Result<File, Error> {
        let failed = |source| Error::Directory { action: "open", path: state.to_owned(), source };
        File::open(state).map_err(failed)
    }

    /// Removes what a keeper that is gone may have left.
    async fn clear(&self, id: &SandboxId, state: &Path) -> Result<(), Error> {
        clear(self.layout.clone(), id.to_string(), state.to_owned()).await
    }

    async fn look_around(&self) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        for (id, state) in sandboxes_below(&self.root)? {
            let handle = self.open_state(&state)?;
            match UnixStream::connect(in_state(&handle, "keeper")).await {
                Ok(stream) => {
                    let range = read_spec(&state).and_then(|spec| self.ranges.reserve(&spec));
                    let kept = Kept::new(self, &id, state, handle, stream, range);
                    found.push(Found { id, state: Ok(Arc::new(kept)) });
                }
                Err(_) => {
                    let ended = last_words(&state).map_or(Ended::Lost, |exit| exit.cause.into());
                    if let Err(err) = self.clear(&id, &state).await {
                        // The others must not suffer for it; the next start tries again.
                        tracing::error!(sandbox.id = %id, "sandbox {id} was not cleared: {err}");
                    }
                    found.push(Found { id, state: Err(ended) });
                }
            }
        }
        let stock = Arc::clone(&self.stock);
        self.waits.spawn_blocking(move || stock.tidy());
        Ok(found)
    }
}

impl Walls for Native {
    fn build<'a>(&'a self, plan: Plan<'a>) -> BoxFuture<'a, Result<Arc<dyn Instance>, Error>> {
        Box::pin(self.start(plan))
    }

    fn find(&self) -> BoxFuture<'_, Result<Vec<Found>, Error>> {
        Box::pin(self.look_around())
    }

    fn layers(&self) -> Result<Vec<PathBuf>, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Directory { action: "read", path, source }
        };
        let mut layers = Vec::new();
        for (_, state) in sandboxes_below(&self.root)? {
            let path = state.join("spec.json");
            let text = match std::fs::read(&path) {
                // Nothing is mounted before it is written.
                Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
                text => text.map_err(failed(&path))?,
            };
            let spec: Spec =
                serde_json::from_slice(&text).map_err(|err| failed(&path)(err.into()))?;
            layers.extend(spec.layers);
            layers.extend(spec.host_usr.into_iter().flat_map(|host_usr| host_usr.over));
        }
        Ok(layers)
    }

    fn carries_network(&self) -> bool {
        self.wired.is_some()
    }

    fn limit_disks(&self, mib: u32) -> Result<(), Error> {
        self.stock.prepare(mib)?;
        self.fill_stock(mib);
        Ok(())
    }

    fn outlives_server(&self) -> bool {
        true
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.waits.close();
            self.waits.wait().await;
            let stock = Arc::clone(&self.stock);
            // It fails only if the runtime ends, and then the process does.
            let _ = tokio::task::spawn_blocking(move || stock.clear()).await;
            match self.privilege {
                // Whatever this server was asked for: a former one may have left it.
                Privilege::Root => retire(self.place),
                // It could have made none.
                Privilege::User => {}
            }
        })
    }
}

fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A sandbox with its keeper.
struct Kept {
    id: SandboxId,
    state: PathBuf,
    handle: File,
    layout: Layout,
    stock: Arc<Stock>,
    waits: TaskTracker,
    orders: AsyncMutex<OwnedWriteHalf>,
    answers: AsyncMutex<mpsc::Receiver<String>>,
    /// Whether it was made with a way out.
    linked: bool,
    ended: watch::Receiver<Option<Ended>>,
    cleared: AsyncMutex<bool>,
    _range: Option<Range>,
}

impl Kept {
    fn new(
        native: &Native,
        id: &SandboxId,
        state: PathBuf,
        handle: File,
        keeper: UnixStream,
        range: Option<Range>,
    ) -> Kept {
        let (hears, orders) = keeper.into_split();
        let (end, ended) = watch::channel(None);
        let (answer, answers) = mpsc::channel(1);
        let linked = read_spec(&state).is_some_and(|spec| spec.link.is_some());
        let place = state.clone();
        native.waits.spawn(async move {
            listen(hears, answer).await;
            let exit = last_words(&place);
            if let Some(Exit { cause: Cause::NotStarted, detail }) = &exit {
                tracing::error!("a sandbox did not start: {detail}");
            }
            end.send_replace(Some(exit.map_or(Ended::Lost, |exit| exit.cause.into())));
        });
        Kept {
            id: id.clone(),
            state,
            handle,
            layout: native.layout.clone(),
            stock: Arc::clone(&native.stock),
            waits: native.waits.clone(),
            orders: AsyncMutex::new(orders),
            answers: AsyncMutex::new(answers),
            linked,
            ended,
            cleared: AsyncMutex::new(false),
            _range: range,
        }
    }

    async fn order(&self, words: &str) -> Result<(), Error> {
        let mut orders = self.orders.lock().await;
        orders
            .write_all(words.as_bytes())
            .await
            .map_err(|source| Error::Host { what: "the sandbox's keeper does not listen", source })
    }

    async fn change_network(&self, network: &Network) -> Result<(), Error> {
        if !self.linked {
            let what = "a server with `--network internet` for that";
            return Err(Error::Unavailable { tier: Tier::Native, what });
        }
        let failed = |detail: &str| Error::Keeper { detail: detail.to_owned() };
        let words = serde_json::to_string(network).map_err(|err| failed(&err.to_string()))?;
        // Held until the answer is there: it belongs to this order.
        let mut answers = self.answers.lock().await;
        while answers.try_recv().is_ok() {}
        self.order(&format!("network {words}\n")).await?;
        let answer = tokio::time::timeout(KEEPER_ANSWER, answers.recv()).await;
        match answer.map_err(|_| failed("the keeper did not answer in time"))?.as_deref() {
            Some("ok") => Ok(()),
            Some(words) => Err(failed(words.strip_prefix("failed ").unwrap_or(words))),
            None => Err(failed("the sandbox ended meanwhile")),
        }
    }

    async fn wait(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.unwrap_or(Ended::Lost),
            Err(_) => Ended::Lost,
        }
    }

    async fn take_down(&self) -> Result<(), Error> {
        let mut cleared = self.cleared.lock().await;
        if *cleared {
            return Ok(());
        }
        // A keeper that does not listen is gone, or will be found to be.
        let _ = self.order("kill\n").await;
        if tokio::time::timeout(KEEPER_END, self.wait()).await.is_err() {
            let detail = "the keeper did not end its sandbox in time".to_owned();
            return Err(Error::Keeper { detail });
        }
        clear(self.layout.clone(), self.id.to_string(), self.state.clone()).await?;
        *cleared = true;
        let stock = Arc::clone(&self.stock);
        self.waits.spawn_blocking(move || stock.tidy());
        Ok(())
    }
}

impl Instance for Kept {
    fn dial(&self) -> BoxFuture<'_, io::Result<UnixStream>> {
        Box::pin(UnixStream::connect(in_state(&self.handle, "door")))
    }

    fn ended(&self) -> BoxFuture<'_, Ended> {
        Box::pin(self.wait())
    }

    fn set_deadline(&self, unix_ms: u64) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.order(&format!("deadline {unix_ms}\n")).await })
    }

    fn set_network<'a>(&'a self, network: &'a Network) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.change_network(network))
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.take_down())
    }
}

impl From<Cause> for Ended {
    fn from(cause: Cause) -> Ended {
        match cause {
            Cause::Asked => Ended::Killed,
            Cause::Deadline => Ended::Deadline,
            Cause::Exited => Ended::Exited,
            Cause::OutOfMemory => Ended::OutOfMemory,
            Cause::NotStarted => Ended::Lost,
        }
    }
}

/// Passes the keeper's answers on. Returns when its end of the connection
/// closes, which is when it ends.
async fn listen(hears: OwnedReadHalf, answers: mpsc::Sender<String>) {
    let mut lines = BufReader::with_capacity(512, hears).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // An answer that nobody waits for any more is not worth keeping.
        let _ = answers.try_send(line);
    }
}

/// A file of the state directory by a path short enough for a socket.
fn in_state(handle: &File, name: &str) -> PathBuf {
    format!("/proc/self/fd/{}/{name}", handle.as_raw_fd()).into()
}

fn last_words(state: &Path) -> Option<Exit> {
    serde_json::from_slice(&std::fs::read(state.join("exit.json")).ok()?).ok()
}

fn read_spec(state: &Path) -> Option<Spec> {
    serde_json::from_slice(&std::fs::read(state.join("spec.json")).ok()?).ok()
}

async fn clear(layout: Layout, id: String, state: PathBuf) -> Result<(), Error> {
    let clearing = tokio::task::spawn_blocking(move || {
        let link = read_spec(&state).and_then(|spec| spec.link);
        let unlinked = link.map_or(Ok(()), |link| network::remove(&link));
        let left = Cgroup::of(&layout, &id).remove();
        if let Err(source) = remove_tree(&state) {
            return Err(Error::Directory { action: "remove", path: state, source });
        }
        unlinked.map_err(|source| Error::Host { what: "a sandbox's link is left", source })?;
        if left.is_empty() { Ok(()) } else { Err(Error::CgroupsLeft(left)) }
    });
    clearing.await.unwrap_or(Err(Error::Survivors { count: 0 }))
}
