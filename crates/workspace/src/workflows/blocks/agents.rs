//! `agents`: puts an agent into a sandbox, and hands its lines on as they are.
//!
//! ```text
//! mint tokens ──► POST {sandbox URL}/stream ──► lines … ──► result | error ──► settle
//! ```
//!
//! The runner is the block's `sandboxUrl`, else the workflow's `SANDBOX_URL`, else
//! the server's. Only the server's own gets an API key of ours. However the
//! block ends, its tokens and its bearer end with it. A stream that is not what
//! seed 000 says ends the block: nothing that follows can be trusted, and a line
//! that passed for one of the engine's could not be told from it.

use std::{collections::HashSet, time::Duration};

use serde_json::{Map, Value, json};
use store::{OnDisconnect, ResourceRow, SessionCaller};
use tokio::time::{Instant, sleep_until, timeout_at};
use wire::{
    agent::Harness,
    run::{EnvelopeChecker, EnvelopeLine, NOTE_LIMIT},
    workspace::{ExecutionId, ResourceId, ResourceKind, SessionId},
};

use super::{Broken, Failure, Inputs, Outputs, Scene, check_sandbox_url, files, unfilled};
use crate::{
    clock, keyring,
    runner::{DispatchBody, Wanted},
    settings::{RunnerAddress, RunnerKey},
    tokens::{NewSession, Opened},
    workflows::{SANDBOX_URL, check::Violation, values::Template},
};

/// How much longer than its cap a run is waited for: its own end comes first.
const GRACE: Duration = Duration::from_secs(60);

const AGENT: &str = "agent";
const PROMPT: &str = "prompt";
const URL: &str = "sandboxUrl";

/// The inputs of the block.
#[derive(Debug)]
pub(crate) struct Agents {
    /// The id of an agent, or its name.
    agent: Template,
    prompt: Template,
    sandbox_url: Option<Template>,
}

impl Agents {
    pub(super) fn read(inputs: &mut Inputs<'_>) -> Result<Agents, Violation> {
        let agents = Agents {
            agent: inputs.required_text(AGENT)?,
            prompt: inputs.required_text(PROMPT)?,
            sandbox_url: inputs.text(URL)?,
        };
        if let Some(url) = agents.sandbox_url.as_ref().and_then(Template::literal) {
            check_sandbox_url(url).map_err(|message| inputs.wrong(URL, message))?;
        }
        Ok(agents)
    }

    pub(super) async fn carry_out(&self, mut scene: Scene<'_>) -> Result<Outputs, Broken> {
        let prompt = self.prompt.text(scene.values).map_err(unfilled(PROMPT))?;
        let runner = self.runner(&scene)?;
        let agent = self.agent(&scene).await?;
        let in_bag = files::in_bag(&scene).await?;
        let earlier: HashSet<_> = in_bag.into_iter().map(|file| file.id).collect();
        let session = session_of(&scene.execution.id, scene.block);
        let opened = open_session(&scene, &session, &agent).await?;
        let ended = hear(&mut scene, &runner, dispatch_body(opened, prompt, &agent)).await;
        if let Err(err) = scene.workspace.store.settle_session(&session, clock::now()).await {
            // It expires by itself.
            tracing::error!(session.id = %session, "session {session} cannot be settled: {err}");
        }
        let response = ended?;
        let written = files::in_bag(&scene).await?.into_iter();
        let written = written.filter(|file| !earlier.contains(&file.id)).map(files::to_json);
        Ok(Map::from_iter([
            ("response".to_owned(), Value::String(response)),
            ("files".to_owned(), Value::Array(written.collect())),
        ]))
    }

    /// Where the agent is dispatched to.
    fn runner(&self, scene: &Scene<'_>) -> Result<RunnerAddress, Broken> {
        // An empty address is how the server says that it has no runner.
        let server = Some(scene.workspace.settings.runner.clone());
        let server = server.filter(|server| !server.url.is_empty());
        let named = match (&self.sandbox_url, scene.environment.get(SANDBOX_URL)) {
            (Some(template), _) => Some(template.text(scene.values).map_err(unfilled(URL))?),
            (None, named) => named.cloned(),
        };
        let Some(url) = named else {
            return server.ok_or_else(|| {
                let message = "no sandbox runner is known: set the block's input `sandboxUrl`, \
                               SANDBOX_URL in the workflow's environment, or SANDBOX_URL of the server";
                Failure::new("no_sandbox_url", message).into()
            });
        };
        check_sandbox_url(&url)
            .map_err(|message| Failure::new("bad_input", format!("inputs.{URL}: {message}")))?;
        let url = url.trim_end_matches('/').to_owned();
        // A key goes to nobody but the runner that the operator gave it for.
        let key = match server {
            Some(server) if server.url == url => server.key,
            Some(_) | None => RunnerKey::None,
        };
        Ok(RunnerAddress { url, key })
    }

    /// The agent, by its id or by its name.
    async fn agent(&self, scene: &Scene<'_>) -> Result<ResourceRow, Broken> {
        const KIND: ResourceKind = ResourceKind::Agent;
        let named = self.agent.text(scene.values).map_err(unfilled(AGENT))?;
        let (store, owner) = (&scene.workspace.store, &scene.execution.workspace);
        let found = match ResourceId::parse(KIND, &named) {
            Ok(id) => store.resource(owner, KIND, &id).await?,
            Err(_) => store.resource_by_name(owner, KIND, &named).await?,
        };
        found.ok_or_else(|| {
            let message = format!("inputs.{AGENT}: there is no agent `{named}`");
            Failure::new("no_agent", message).into()
        })
    }
}

/// The session of a block is named after it, so that the next server can end
/// what this one leaves open. The name of an execution is random enough.
pub(crate) fn session_of(execution: &ExecutionId, block: &str) -> SessionId {
    let hash = keyring::hash(&format!("{execution} {block}"));
    let mut bytes = [0; 15];
    bytes.copy_from_slice(&hash[..15]);
    SessionId::from_random(bytes)
}

async fn open_session(
    scene: &Scene<'_>,
    id: &SessionId,
    agent: &ResourceRow,
) -> Result<Opened, Broken> {
    let session = NewSession {
        workspace: scene.execution.workspace.clone(),
        caller: SessionCaller::Agents,
        scope: scene.execution.id.as_str().to_owned(),
        work: scene.block.to_owned(),
        brief: json!({
            "agentId": agent.id,
            "environmentId": null,
            "workflowId": scene.execution.workflow_id,
        }),
        upload: true,
    };
    Ok(scene.workspace.open_session_as(id.clone(), session).await?)
}

fn dispatch_body(opened: Opened, prompt: String, agent: &ResourceRow) -> DispatchBody {
    let text = |name: &str| agent.body.get(name).and_then(Value::as_str);
    DispatchBody {
        agent_url: opened.agent_url,
        otp_setup: opened.otp_setup,
        otp_run: opened.otp_run,
        otp_upload: opened.otp_upload,
        prompt,
        chat_id: None,
        template: text("template").map(str::to_owned),
        harness: text("harness").and_then(Harness::parse),
        on_disconnect: OnDisconnect::Cancel,
    }
}

/// Dispatches and listens to the end; the message of the result. Whatever else
/// ends this hangs up, and so ends the run.
async fn hear(
    scene: &mut Scene<'_>,
    runner: &RunnerAddress,
    body: DispatchBody,
) -> Result<String, Broken> {
    let deadline = Instant::now() + scene.workspace.settings.max_runtime + GRACE;
    let workspace = &scene.execution.workspace;
    let dispatch = scene.workspace.runner.dispatch(runner, workspace, &body, Wanted::Envelope);
    let dispatched = tokio::select! {
        dispatched = timeout_at(deadline, dispatch) => dispatched.map_err(|_| overdue())?,
        () = scene.stop.told() => return Err(Broken::Stopped),
    };
    let mut running = dispatched.map_err(|err| Failure::new("dispatch_failed", err.to_string()))?;
    let mut checker = EnvelopeChecker::new();
    loop {
        let lines = tokio::select! {
            lines = running.lines.next() => lines,
            () = sleep_until(deadline) => return Err(overdue().into()),
            () = scene.stop.told() => return Err(Broken::Stopped),
        };
        let lines = lines.map_err(|err| Failure::new("sandbox_lost", err.to_string()))?;
        let Some(lines) = lines else {
            let message = "the sandbox runner's stream ended without a result";
            return Err(Failure::new("sandbox_lost", message).into());
        };
        let mut good = Vec::new();
        let mut end = None;
        for line in lines {
            match read(&mut checker, &line) {
                Ok((text, line)) => {
                    good.push(text);
                    end = ending(line);
                }
                Err(message) => end = Some(Err(Failure::new("bad_stream", message))),
            }
            if end.is_some() {
                break;
            }
        }
        // Not part of the waits above: it must not be dropped half-way.
        scene.journal.forward(good).await?;
        if let Some(end) = end {
            return Ok(end?);
        }
    }
}

/// A line as it came, and what it says.
fn read(checker: &mut EnvelopeChecker, line: &[u8]) -> Result<(String, EnvelopeLine), String> {
    let broken = |err: &dyn std::fmt::Display| {
        format!("the sandbox runner does not keep to the envelope: {err}")
    };
    let parsed = EnvelopeLine::parse(line).map_err(|err| broken(&err))?;
    checker.check(&parsed).map_err(|err| broken(&err))?;
    let text = std::str::from_utf8(line).map_err(|err| broken(&err))?;
    Ok((text.to_owned(), parsed))
}

/// How the block ends, if the line ends it.
fn ending(line: EnvelopeLine) -> Option<Result<String, Failure>> {
    match line {
        EnvelopeLine::Log { .. } | EnvelopeLine::Step { .. } => None,
        EnvelopeLine::Result { message, .. } => Some(Ok(message)),
        EnvelopeLine::Error { code, message, .. } => {
            Some(Err(Failure::new(plain_code(&code), shortened(message))))
        }
    }
}

/// A runner's own code, or ours for one that looks like none.
fn plain_code(code: &str) -> &str {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if (1..=64).contains(&code.len()) && code.bytes().all(plain) { code } else { "runner_error" }
}

/// At most as much as a runner of ours says.
fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(NOTE_LIMIT));
    message
}

fn overdue() -> Failure {
    Failure::new("runtime_exceeded", "the agent took longer than a run may take")
}
