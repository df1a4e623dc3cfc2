//! Opening a run in its sandbox: the link, the upstreams behind it, the agent and
//! the document it is told. What a run that outlives the server needs of that is
//! kept sealed beside its log.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use sandbox::{Link, LinkError, ProcessError, Sandbox};
use store::OnDisconnect;
use tokio::net::UnixStream;
use wire::{
    Secret,
    agent::{AgentLimits, Bootstrap, HostTool, Source},
    run::RunId,
};

use crate::{
    attend::{self, Attendance},
    dispatch::{Dispatch, Origin},
    link::{BadConfig, BadTarget, Outbound, Terms, UnsealError, Upstreams},
    office::Office,
    run::Run,
};

/// The sealed upstreams' name in their run's directory.
const SEALED_FILE: &str = "link.sealed";
/// Where the agent works, below its home.
const WORKSPACE: &str = "workspace";

/// A run whose agent has been started.
pub(crate) struct Opened {
    pub(crate) link: Link,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) attendance: Attendance,
    /// What the agent is told; one of a former server knows it.
    pub(crate) bootstrap: Option<Secret<Bytes>>,
}

/// The agent could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpeningError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("`agent_url` cannot be used: {0}")]
    Target(#[from] BadTarget),
    #[error("`config` cannot be used: {0}")]
    Config(#[from] BadConfig),
    #[error("the agent did not start: {0}")]
    Start(#[from] ProcessError),
    #[error("the agent's task cannot be written down")]
    Document(#[from] serde_json::Error),
}

/// The sealed upstreams of a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeptError {
    #[error("the sealed upstreams cannot be read")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Unseal(#[from] UnsealError),
}

/// Opens a new run.
pub(crate) async fn fresh(
    office: &Office,
    run: &Run,
    sandbox: &Arc<Sandbox>,
    program: &Path,
    dispatch: Dispatch,
) -> Result<Opened, OpeningError> {
    let Dispatch { prompt, chat_id, limits, origin, tools, .. } = dispatch;
    let shown: Vec<HostTool> = tools.iter().map(|given| given.tool.clone()).collect();
    let link = sandbox.open_link().await?;
    let mut agent_limits = AgentLimits::STANDARD;
    if let Some(seconds) = limits.model_timeout_sec {
        agent_limits.model_timeout_ms = seconds.saturating_mul(1000);
    }
    let terms = Terms {
        outbound: office.outbound.clone(),
        link_url: link.url(),
        limits: agent_limits,
        tokens: limits.tokens,
    };
    let (upstreams, source) = match origin {
        Origin::Callbacks { agent_url, otp_setup, otp_run, otp_upload } => {
            let upstreams = Upstreams::callbacks(&agent_url, terms)?;
            (upstreams, Source::Callbacks { otp_setup, otp_run, otp_upload })
        }
        Origin::Inline { config, env } => {
            let (upstreams, config) = Upstreams::inline(config.expose().clone(), terms)?;
            let config = serde_json::from_value(config)?;
            (upstreams, Source::Inline { env, config: Box::new(config) })
        }
    };
    let upstreams = upstreams
        .of_run(run.row().id.clone())
        .with_tools(tools)
        .with_file_hook(dispatch.file_hook)
        .keeping_files_in(run.directory().clone())
        .keeping_sessions_in(office.sessions_of(&run.row().team));
    keep(office, run, &upstreams).await;
    let home = office.sandboxes.agent_home(sandbox.id());
    let id = &run.row().id;
    let bootstrap = Bootstrap {
        run_id: id.clone(),
        link: link.url(),
        prompt,
        chat_id,
        source,
        workspace_dir: home.join(WORKSPACE).to_string_lossy().into_owned(),
        harness: dispatch.harness,
        session_id: dispatch.session_id,
        bridge: upstreams.bridge(),
        tools: shown,
        policy: dispatch.policy,
        file_events: dispatch.file_events,
        code_mode: dispatch.code_mode,
        limits: agent_limits,
    };
    let document = Secret::new(Bytes::from(serde_json::to_vec(&bootstrap)?));
    let program = program.to_string_lossy();
    let user = office.sandboxes.agent_user();
    let attendance = Attendance::start(Arc::clone(sandbox), id, &program, user).await?;
    Ok(Opened { link, upstreams: Arc::new(upstreams), attendance, bootstrap: Some(document) })
}

/// Takes up a run that a former server opened.
pub(crate) async fn adopted(
    run: &Run,
    sandbox: &Arc<Sandbox>,
    upstreams: Upstreams,
) -> Result<Opened, OpeningError> {
    let link = sandbox.open_link().await?;
    let attendance = Attendance::rejoin(Arc::clone(sandbox), &run.row().id);
    Ok(Opened { link, upstreams: Arc::new(upstreams), attendance, bootstrap: None })
}

/// Tells the agent its task and books that it knows it. From then on the run can
/// outlive this server.
pub(crate) async fn tell(
    office: Arc<Office>,
    run: Arc<Run>,
    sandbox: Arc<Sandbox>,
    bootstrap: Option<Secret<Bytes>>,
) -> Result<(), ProcessError> {
    let Some(document) = bootstrap else { return Ok(()) };
    let id = &run.row().id;
    attend::tell(sandbox, id.clone(), document.expose().clone()).await?;
    drop(document);
    if let Err(err) = office.store.run_is_running(id).await {
        tracing::error!(run.id = %id, "the start of run {id} was not stored: {err}");
    }
    Ok(())
}

/// Keeps what the link knows, sealed, if the run may outlive this server. If that
/// fails the run goes on: only the next server would miss it.
pub(crate) async fn keep(office: &Office, run: &Run, upstreams: &Upstreams) {
    match run.row().on_disconnect {
        OnDisconnect::Cancel => return,
        OnDisconnect::Continue => {}
    }
    let id = &run.row().id;
    let sealed = match upstreams.seal(id, &office.seal_key) {
        Ok(sealed) => sealed,
        Err(err) => return tracing::error!(run.id = %id, "run {id}: {err}"),
    };
    let path = run.directory().join(SEALED_FILE);
    let written = tokio::task::spawn_blocking(move || {
        let partial = path.with_extension("partial");
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(&sealed)?;
        file.sync_all()?;
        fs::rename(&partial, &path)
    });
    if let Err(err) = written.await.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
        tracing::error!(run.id = %id, "the upstreams of run {id} were not kept: {err}");
    }
}

/// What `keep` kept. Tokens that the run has used are in its log: `spent`.
pub(crate) fn kept(
    directory: &Path,
    id: &RunId,
    key: &Secret<[u8; 32]>,
    outbound: Outbound,
    spent: u64,
) -> Result<Upstreams, KeptError> {
    let sealed = fs::read(directory.join(SEALED_FILE))?;
    let upstreams = Upstreams::unseal(&sealed, id, key, outbound, spent)?;
    Ok(upstreams.keeping_files_in(directory.to_owned()))
}

/// Removes what `keep` kept: a run that has ended has no secrets.
pub(crate) async fn discard(run: &Run) {
    let path = run.directory().join(SEALED_FILE);
    match tokio::fs::remove_file(&path).await {
        Err(err) if err.kind() != io::ErrorKind::NotFound => {
            let id = &run.row().id;
            tracing::error!(run.id = %id, "sealed secrets of run {id} are left: {err}");
        }
        Ok(()) | Err(_) => {}
    }
}

/// The connections that come out of a link.
pub(crate) fn connections(link: Link) -> impl Stream<Item = UnixStream> {
    stream::unfold(link, |mut link| async move {
        let connection = link.accept().await?;
        Some((connection, link))
    })
}
