//! One task per sandbox: the only code that changes a sandbox's state.
//!
//! ```text
//! Creating ──► Running ──► Ended(reason)
//! ```
//!
//! A client that hangs up abandons its wait, not the change it asked for.
//! Which change is legal is in `policy`; how walls are built is in `isolate`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, Utc};
use hyper::body::Incoming;
use isolate::{Ended, Instance, Network};
use store::{SandboxRow, Store};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use wire::SandboxId;

use crate::{
    Commands, Envd, Lifetime, Link, LinkError, Log, NetworkError, Tally, control,
    network::to_column, policy::DeadlineChange,
};

/// Why a sandbox ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Its init ended by itself.
    Exited,
    /// A client or the operator ended it.
    Killed,
    /// Its deadline passed.
    Timeout,
    /// It ran out of memory as a whole.
    OutOfMemory,
    /// It was not there any more when somebody looked.
    Lost,
    /// A rule of the operator ended it.
    Policy,
}

impl EndReason {
    pub(crate) const ALL: [EndReason; 6] = [
        EndReason::Exited,
        EndReason::Killed,
        EndReason::Timeout,
        EndReason::OutOfMemory,
        EndReason::Lost,
        EndReason::Policy,
    ];

    /// The name in the store, the log and the metrics.
    pub fn name(self) -> &'static str {
        match self {
            EndReason::Exited => "exited",
            EndReason::Killed => "killed",
            EndReason::Timeout => "timeout",
            EndReason::OutOfMemory => "out_of_memory",
            EndReason::Lost => "lost",
            EndReason::Policy => "policy",
        }
    }
}

impl From<Ended> for EndReason {
    fn from(ended: Ended) -> EndReason {
        match ended {
            Ended::Killed => EndReason::Killed,
            Ended::Deadline => EndReason::Timeout,
            Ended::Exited => EndReason::Exited,
            Ended::OutOfMemory => EndReason::OutOfMemory,
            Ended::Lost => EndReason::Lost,
        }
    }
}

/// A handle to one sandbox.
pub struct Sandbox {
    facts: Facts,
    deadline: Mutex<DateTime<Utc>>,
    network: Mutex<Network>,
    instance: Arc<dyn Instance>,
    tasks: TaskTracker,
    envd: Envd,
    commands: Commands,
    log: Log,
    gone: CancellationToken,
    ended: watch::Receiver<Option<EndReason>>,
    orders: mpsc::Sender<Order>,
}

/// What never changes in a sandbox's life.
pub(crate) struct Facts {
    id: SandboxId,
    team: String,
    template: String,
    metadata: BTreeMap<String, String>,
    started_at: DateTime<Utc>,
}

impl From<SandboxRow> for Facts {
    fn from(row: SandboxRow) -> Facts {
        let SandboxRow { id, team, template, metadata, started_at, .. } = row;
        Facts { id, team, template, metadata, started_at }
    }
}

/// A change that somebody wants.
enum Order {
    Kill(EndReason),
    Deadline(DeadlineChange, oneshot::Sender<DateTime<Utc>>),
    Network(Network, oneshot::Sender<Result<(), NetworkError>>),
}

impl Sandbox {
    /// Its name.
    pub fn id(&self) -> &SandboxId {
        &self.facts.id
    }

    /// Whose it is.
    pub fn team(&self) -> &str {
        &self.facts.team
    }

    /// What it was made from.
    pub fn template(&self) -> &str {
        &self.facts.template
    }

    /// The caller's own labels.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.facts.metadata
    }

    /// When it began.
    pub fn started_at(&self) -> DateTime<Utc> {
        self.facts.started_at
    }

    /// When it will end.
    pub fn deadline(&self) -> DateTime<Utc> {
        self.deadline.lock().map_or(self.facts.started_at, |deadline| *deadline)
    }

    /// What it reaches.
    pub fn network(&self) -> Network {
        self.network.lock().map_or(Network::None, |network| network.clone())
    }

    /// The way to its envd.
    pub fn envd(&self) -> &Envd {
        &self.envd
    }

    /// Opens its link to us, on which programs inside can call whoever takes
    /// the connections. One that is opened later takes over.
    pub async fn open_link(&self) -> Result<Link, LinkError> {
        Link::open(self.instance.as_ref(), &self.tasks, &self.gone).await
    }

    /// What runs in it.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// What its commands wrote last.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Cancelled as soon as the sandbox is ending: streams out of it are to be cut.
    pub fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Ends it and returns when nothing of it is left.
    pub async fn kill(&self) {
        // A closed channel means that the driver is already past its loop.
        let _ = self.orders.send(Order::Kill(EndReason::Killed)).await;
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// Waits for its end and says why it came; `None` when this server leaves it
    /// alive to the next one.
    pub async fn ended(&self) -> Option<EndReason> {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok().and_then(|reason| *reason)
    }

    /// Sets the deadline, earlier or later. `None` when the sandbox is over.
    pub async fn set_lifetime(&self, lifetime: Lifetime) -> Option<DateTime<Utc>> {
        self.change(DeadlineChange::Exactly(lifetime.from(Utc::now()))).await
    }

    /// Moves the deadline later, never earlier. `None` when the sandbox is over.
    pub async fn extend_lifetime(&self, lifetime: Lifetime) -> Option<DateTime<Utc>> {
        self.change(DeadlineChange::AtLeast(lifetime.from(Utc::now()))).await
    }

    /// Changes what it reaches, in place of all that was said before.
    pub async fn set_network(&self, network: Network) -> Result<(), NetworkError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.orders.send(Order::Network(network, reply)).await;
        sent.map_err(|_| NetworkError::Over)?;
        answer.await.unwrap_or(Err(NetworkError::Over))
    }

    async fn change(&self, change: DeadlineChange) -> Option<DateTime<Utc>> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Deadline(change, reply)).await.ok()?;
        answer.await.ok()
    }
}

/// What a driver works with.
pub(crate) struct Driver {
    sandbox: Arc<Sandbox>,
    instance: Arc<dyn Instance>,
    orders: mpsc::Receiver<Order>,
    ended: watch::Sender<Option<EndReason>>,
    office: Office,
}

/// What all drivers share.
#[derive(Clone)]
pub(crate) struct Office {
    pub(crate) store: Store,
    pub(crate) tally: Arc<Tally>,
    pub(crate) tasks: TaskTracker,
    /// Ends every sandbox.
    pub(crate) stop: CancellationToken,
    /// Ends every driver and leaves the sandboxes to their guards.
    pub(crate) leave: CancellationToken,
}

/// How a driver's work ends.
enum Verdict {
    End(EndReason),
    Leave,
}

impl Driver {
    /// A driver for a running instance, and the handle that goes to everybody else.
    pub(crate) fn new(
        facts: Facts,
        deadline: DateTime<Utc>,
        network: Network,
        instance: Arc<dyn Instance>,
        envd: Envd,
        office: Office,
    ) -> (Driver, Arc<Sandbox>) {
        let (order, orders) = mpsc::channel(16);
        let (end, ended) = watch::channel(None);
        let sandbox = Arc::new(Sandbox {
            commands: Commands::new(facts.id.clone(), Arc::clone(&office.tally)),
            facts,
            deadline: Mutex::new(deadline),
            network: Mutex::new(network),
            instance: Arc::clone(&instance),
            tasks: office.tasks.clone(),
            envd,
            log: Log::default(),
            gone: CancellationToken::new(),
            ended,
            orders: order,
        });
        let handle = Arc::clone(&sandbox);
        (Driver { sandbox, instance, orders, ended: end, office }, handle)
    }

    /// Lives the sandbox's life. `forget` takes it out of the registry before
    /// anything is torn down, so that whoever asks then is told it is gone.
    pub(crate) async fn run(mut self, control: Incoming, forget: impl FnOnce(&SandboxId)) {
        let sandbox = Arc::clone(&self.sandbox);
        let books = self.office.tasks.spawn(async move {
            control::follow(sandbox.id(), control, &sandbox.commands, &sandbox.log).await;
        });
        let reason = match self.live().await {
            Verdict::End(reason) => reason,
            // Streams and books end with us; the sandbox does not.
            Verdict::Leave => {
                books.abort();
                return self.sandbox.gone.cancel();
            }
        };
        let id = self.sandbox.id().clone();
        tracing::info!(sandbox.id = %id, reason = reason.name(), "sandbox {id} ends");
        forget(&id);
        self.sandbox.gone.cancel();
        if let Err(err) = self.instance.kill().await {
            tracing::error!(sandbox.id = %id, "sandbox {id} was not removed whole: {err}");
        }
        // envd books its commands as killed when it goes; what it did not get
        // to say is booked here.
        if timeout(Duration::from_secs(1), books).await.is_err() {
            tracing::warn!(sandbox.id = %id, "the control stream of sandbox {id} did not end");
        }
        self.sandbox.commands.close();
        if let Err(err) = self.office.store.end_sandbox(&id, reason.name(), Utc::now()).await {
            tracing::error!(sandbox.id = %id, "the end of sandbox {id} was not stored: {err}");
        }
        self.office.tally.sandbox_ended(reason);
        self.ended.send_replace(Some(reason));
    }

    async fn live(&mut self) -> Verdict {
        loop {
            let left = (self.sandbox.deadline() - Utc::now()).to_std().unwrap_or_default();
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(Order::Deadline(change, reply)) => self.change_deadline(change, reply).await,
                    Some(Order::Network(network, reply)) => {
                        // Whoever asked may have gone; the change is made.
                        let _ = reply.send(self.change_network(network).await);
                    }
                    Some(Order::Kill(reason)) => return Verdict::End(reason),
                    // Nobody holds a handle any more, which cannot be: we do.
                    None => return Verdict::End(EndReason::Lost),
                },
                () = self.office.stop.cancelled() => return Verdict::End(EndReason::Killed),
                () = self.office.leave.cancelled() => return Verdict::Leave,
                () = tokio::time::sleep(left) => return Verdict::End(EndReason::Timeout),
                ended = self.instance.ended() => return Verdict::End(ended.into()),
            }
        }
    }

    async fn change_deadline(
        &mut self,
        change: DeadlineChange,
        reply: oneshot::Sender<DateTime<Utc>>,
    ) {
        let deadline = change.apply(self.sandbox.deadline());
        let id = self.sandbox.id();
        if let Err(err) = self.office.store.set_deadline(id, deadline).await {
            // The caller's wait ends with "gone", which is wrong but safe; the
            // log has the truth.
            tracing::error!(sandbox.id = %id, "deadline of sandbox {id} was not stored: {err}");
            return;
        }
        if let Err(err) = self.instance.set_deadline(keeper_deadline(deadline)).await {
            tracing::warn!(sandbox.id = %id, "the guard of sandbox {id} was not told: {err}");
        }
        if let Ok(mut current) = self.sandbox.deadline.lock() {
            *current = deadline;
        }
        let _ = reply.send(deadline);
    }

    async fn change_network(&mut self, network: Network) -> Result<(), NetworkError> {
        if network == self.sandbox.network() {
            return Ok(());
        }
        self.instance.set_network(&network).await?;
        let column = to_column(&network);
        if let Ok(mut current) = self.sandbox.network.lock() {
            *current = network;
        }
        Ok(self.office.store.set_network(self.sandbox.id(), &column).await?)
    }
}

/// When whoever guards a sandbox without us ends it: a little after we would,
/// so that with a server there it is the server that does.
pub(crate) fn keeper_deadline(deadline: DateTime<Utc>) -> u64 {
    const MARGIN_MS: i64 = 1_000;
    u64::try_from(deadline.timestamp_millis() + MARGIN_MS).unwrap_or(0)
}
