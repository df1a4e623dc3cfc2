//! `Start`: a new command, and the stream of its events.
//!
//! A hang-up means nothing to the command. Its time limit does: at the deadline
//! it is killed, whether anybody still reads or not.

use std::{
    ffi::{OsStr, OsString},
    rc::Rc,
};

use http::HeaderMap;
use hyper::body::Incoming;
use tokio::time::Instant;
use wire::{
    Codec, ConnectError, Init,
    process::{ProcessConfig, StartRequest},
};

use crate::{
    command::Command,
    connect::{Answer, Metadata, events, read_one},
    daemon::Daemon,
    environment,
    fault::Fault,
    output::{Begin, Output},
    reader::Reader,
    spawn::{Plan, Wiring},
    supervise::{Deadline, supervise},
    users::{Accounts, Identity, IdentityError},
};

pub(super) async fn start(
    daemon: Rc<Daemon>,
    codec: Codec,
    metadata: Metadata,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Answer, ConnectError> {
    let deadline = metadata.timeout.map(|timeout| Instant::now() + timeout);
    let payload = read_one(codec, headers, body).await?;
    let request: StartRequest = codec.decode(&payload)?;
    let claim = daemon.claim.borrow().clone();
    let user = metadata.user.as_deref().or(claim.user.as_deref());
    let identity = identify(&daemon, user).map_err(|err| err.answer())?;
    let config = request.process.into_option().unwrap_or_default();
    let wiring = match (request.pty.into_option(), request.stdin) {
        (Some(pty), _) => Wiring::Terminal(pty.size.into_option().unwrap_or_default()),
        (None, Some(false)) => Wiring::Output,
        (None, Some(true) | None) => Wiring::OutputAndInput,
    };
    let plan = plan(&daemon, &claim, identity, &config, wiring)?;

    let kills = daemon.memory_kills.count();
    // From here to the task nothing is awaited, so no exit can be missed.
    let spawned = plan.spawn(&daemon.groups).map_err(|err| err.answer())?;
    let output = Output::new(Rc::clone(&daemon.budget), metadata.unread);
    let command = Command::new(spawned.pid, config, request.tag, spawned.input, output, kills);
    let command = Rc::new(command);
    daemon.table.insert(Rc::clone(&command));
    let reader = Reader::attach(Rc::clone(&command), Begin::Now, codec, metadata.keepalive);
    let deadline = deadline.map(|at| Deadline { at, reader: reader.id() });
    let supervised = supervise(Rc::clone(&daemon), Rc::clone(&command), spawned.sources, deadline);
    daemon.tasks.spawn_local(supervised);
    daemon.announce(&command).await;
    Ok(events(codec, reader))
}

/// Behind a wrapper it is the wrapper that decides who runs a command.
fn identify(daemon: &Daemon, user: Option<&str>) -> Result<Identity, IdentityError> {
    let accounts = Accounts::read();
    match user.filter(|_| daemon.wrap.is_empty()) {
        None => Ok(accounts.own(daemon.home.as_deref())),
        Some(name) => accounts.named(name, daemon.home.as_deref(), daemon.identities),
    }
}

fn plan(
    daemon: &Daemon,
    claim: &Init,
    identity: Identity,
    config: &ProcessConfig,
    wiring: Wiring,
) -> Result<Plan, ConnectError> {
    let refused = |err: environment::EnvironmentError| err.answer();
    let path = daemon.path.clone();
    let variables =
        environment::variables(path, &identity, &claim.envs, &config.envs).map_err(refused)?;
    let cwd = config.cwd.as_deref().or(claim.workdir.as_deref());
    let directory = environment::directory(&identity.home, cwd).map_err(refused)?;
    if config.cmd.is_empty() {
        return Err(refused(environment::EnvironmentError::NoCommand));
    }
    let mut arguments = daemon.wrap.clone();
    arguments.push(OsString::from(&config.cmd));
    arguments.extend(config.args.iter().map(OsString::from));
    let path = variables.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    let program = environment::program(&arguments[0], &path, &directory).map_err(refused)?;
    let descriptors = daemon.descriptors;
    let switch = identity.switch;
    Ok(Plan { program, arguments, variables, directory, switch, wiring, descriptors })
}
