//! The upstreams of one run, and the handling of each route.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use sandbox::{Body, full_body};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot};
use wire::{
    agent::{AgentLimits, ToolBridge},
    run::{Outcome, RunId, StepId},
};

use super::{
    addresses::{self, Addresses, BadConfig},
    body::{BoxError, Pulse},
    broker,
    forward::{Passage, cut_within},
    headers::{self, Outward},
    kept,
    outbound::Outbound,
    refusal::Refusal,
    route::{self, NoRoute, Route},
    sessions::Sessions,
    target::{BadTarget, Target},
    tools::Bridge,
    usage::Usage,
};
use crate::dispatch::GivenTool;

/// What the link tells the runner.
#[derive(Debug, PartialEq)]
pub enum Note {
    /// The config went inside. Whoever keeps upstreams across a restart seals
    /// them now: this is the first time that they are complete.
    ConfigPassed,
    /// A model call ended.
    Usage(Usage),
    /// A tool of the caller's is called.
    ToolStarted {
        /// The call.
        id: StepId,
        /// The tool.
        name: String,
        /// The arguments, as the agent gave them.
        args: Value,
        /// When.
        at: Instant,
        /// How many lines the agent had written by then, if it says so.
        line: Option<u64>,
        /// Told once it is booked: the tool is called after that. One that is not
        /// booked is not called.
        booked: Booked,
    },
    /// The call is over.
    ToolEnded {
        /// The call.
        id: StepId,
        /// How it went.
        outcome: Outcome,
        /// How long it took.
        duration_ms: u64,
        /// Told once it is booked: the agent is answered after that.
        booked: Booked,
    },
    /// A tool says something while it executes.
    Custom {
        /// What it is.
        name: String,
        /// What it says.
        value: Value,
        /// Told once it is booked: the tool is heard on after that.
        booked: Booked,
    },
}

/// Somebody who waits until a note is booked. No two are told apart.
#[derive(Debug, Default)]
pub struct Booked(pub(super) Option<oneshot::Sender<()>>);

impl Booked {
    /// It is booked. To drop it says that nobody books any more.
    pub fn done(self) {
        // Whoever waited may be gone.
        let _ = self.0.map(|waiting| waiting.send(()));
    }
}

impl PartialEq for Booked {
    fn eq(&self, _: &Booked) -> bool {
        true
    }
}

/// What holds for a run's upstreams beside their addresses.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How the outside is reached.
    pub outbound: Outbound,
    /// The link's address as seen inside, without a slash at its end.
    pub link_url: String,
    /// What may be fetched and sent, and for how long.
    pub limits: AgentLimits,
    /// Tokens that the run may use; `None` is as many as it likes.
    pub tokens: Option<u64>,
}

/// The upstreams of one run.
#[derive(Debug)]
pub struct Upstreams {
    pub(super) terms: Terms,
    pub(super) agent: Option<Target>,
    /// The run, for those who are told which one calls them.
    pub(super) run: Option<RunId>,
    /// The caller's tools.
    pub(super) bridge: Bridge,
    /// Who else wants to know of changed files.
    pub(super) file_hook: Option<String>,
    /// Where files stay that have no workspace to go to.
    kept_in: Option<PathBuf>,
    /// Where harnesses keep their sessions.
    sessions: Option<Sessions>,
    /// Unknown until the config has passed.
    addresses: Mutex<Option<Arc<Addresses>>>,
    spent: AtomicU64,
    /// Places for model calls: with a budget this bounds by how much calls that
    /// run at the same time may go past it.
    pub(super) calls: Arc<Semaphore>,
}

/// Model calls of one run at a time.
const CALLS: usize = 8;

/// Longest silence of an upstream that has no limit of its own.
const SILENCE: Duration = Duration::from_secs(60);

/// What the host waits longer than the agent does, so that the agent's own
/// message is the one people see.
const MARGIN: Duration = Duration::from_secs(10);

/// Parts of a multipart upload that are not files.
const UPLOAD_FRAMES: u64 = 1 << 20;

impl Upstreams {
    /// Upstreams of a dispatch that is called back for its config.
    pub fn callbacks(agent_url: &str, terms: Terms) -> Result<Upstreams, BadTarget> {
        let agent = Target::parse(agent_url)?;
        Ok(Upstreams::new(Some(agent), None, terms, 0))
    }

    /// Upstreams of a dispatch that brought its config, and the config as it
    /// may go inside.
    pub fn inline(mut config: Value, terms: Terms) -> Result<(Upstreams, Value), BadConfig> {
        let addresses = addresses::take(&mut config, &terms.link_url, None)?;
        Ok((Upstreams::new(None, Some(addresses), terms, 0), config))
    }

    /// The same, with a run's directory for the files of an agent that has no
    /// workspace to send them to.
    pub fn keeping_files_in(self, directory: PathBuf) -> Upstreams {
        Upstreams { kept_in: Some(directory), ..self }
    }

    /// The same, knowing which run it is.
    pub fn of_run(self, run: RunId) -> Upstreams {
        Upstreams { run: Some(run), ..self }
    }

    /// The same, with the tools of the dispatch.
    pub(crate) fn with_tools(mut self, tools: Vec<GivenTool>) -> Upstreams {
        self.bridge.given = tools.into_iter().map(Into::into).collect();
        self
    }

    /// The same, with an address that is told of changed files.
    pub(crate) fn with_file_hook(self, file_hook: Option<String>) -> Upstreams {
        Upstreams { file_hook, ..self }
    }

    /// The same, with a place for the sessions of harnesses.
    pub fn keeping_sessions_in(self, sessions: Sessions) -> Upstreams {
        Upstreams { sessions: Some(sessions), ..self }
    }

    /// The same, for a run whose log has that many calls of tools already.
    pub(crate) fn after_calls(self, calls: u64) -> Upstreams {
        self.bridge.count_after(calls);
        self
    }

    /// Where the caller's tools are served, and what opens them.
    pub fn bridge(&self) -> ToolBridge {
        let url = format!("{}/tools", self.terms.link_url);
        ToolBridge { url, bearer: self.bridge.bearer.clone() }
    }

    /// Who else wants to know of changed files.
    pub(crate) fn file_hook(&self) -> Option<&str> {
        self.file_hook.as_deref()
    }

    /// How long the config says that the run may take, once it has passed.
    pub fn max_runtime(&self) -> Option<Duration> {
        self.addresses()?.max_runtime_sec.map(Duration::from_secs)
    }

    /// Tokens used so far.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// What a call to the model is answered when they are as many as the run has.
    pub(crate) fn overspent(&self) -> Option<Refusal> {
        let (spent, budget) = (self.spent(), self.terms.tokens?);
        (spent >= budget).then_some(Refusal::TokenBudget { spent, budget })
    }

    pub(super) fn new(
        agent: Option<Target>,
        addresses: Option<Addresses>,
        terms: Terms,
        spent: u64,
    ) -> Upstreams {
        Upstreams {
            terms,
            agent,
            run: None,
            bridge: Bridge::new(),
            file_hook: None,
            kept_in: None,
            sessions: None,
            addresses: Mutex::new(addresses.map(Arc::new)),
            spent: AtomicU64::new(spent),
            calls: Arc::new(Semaphore::new(CALLS)),
        }
    }

    pub(super) fn spend(&self, tokens: u64) {
        // Saturating: a provider that counts wrong must not start over at zero.
        let add = |spent: u64| Some(spent.saturating_add(tokens));
        let _ = self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub(super) fn addresses(&self) -> Option<Arc<Addresses>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers a request from inside.
    pub(super) async fn answer(
        self: Arc<Upstreams>,
        request: Request<Incoming>,
        notes: mpsc::Sender<Note>,
    ) -> Response<Body> {
        self.pass(request, notes).await.unwrap_or_else(|refusal| refusal.response())
    }

    async fn pass(
        self: Arc<Upstreams>,
        request: Request<Incoming>,
        notes: mpsc::Sender<Note>,
    ) -> Result<Response<Body>, Refusal> {
        let path = request.uri().path().to_owned();
        let route = route::route(request.method(), &path).map_err(|none| match none {
            NoRoute::Unknown => Refusal::NoPath,
            NoRoute::Unsafe => Refusal::UnsafePath,
        })?;
        match route {
            Route::Env => self.call_back("/env", request).await,
            Route::Config => self.pass_config(request, notes).await,
            Route::Results => match (&self.agent, &self.kept_in) {
                (None, Some(directory)) => kept::take(directory, &self.terms.limits, request).await,
                (Some(_), _) | (None, None) => self.call_back("/results", request).await,
            },
            Route::Assets => {
                let target = self.known()?.assets.clone();
                let target = target.ok_or(Refusal::NoUpstream("assets"))?;
                self.fetch("workspace", target, self.terms.limits.bag_bytes, request).await
            }
            Route::Skill(id, version) => {
                let known = self.known()?;
                let skill =
                    known.skills.iter().find(|skill| skill.id == id && skill.version == version);
                let target = skill.ok_or(Refusal::NoUpstream("such skill"))?.target.clone();
                self.fetch("workspace", target, self.terms.limits.skill_bytes, request).await
            }
            Route::Model(call) => broker::pass(self, call, request, notes).await,
            Route::Workspace(rest) => {
                let target = self.known()?.workspace.clone();
                let target = target.ok_or(Refusal::NoUpstream("workspace"))?;
                let target = target.below(rest, request.uri().query());
                self.pass_workspace(target, request).await
            }
            Route::Mcp(number) => self.pass_mcp(number, request).await,
            Route::Tools => self.serve_tools(request, notes).await,
            Route::Session(harness, id) => {
                let sessions = self.sessions.as_ref().ok_or(Refusal::NoSession)?;
                sessions.answer(harness, &id, request).await
            }
        }
    }

    /// A callback of the workspace, with the one-time token as it came.
    async fn call_back(
        &self,
        path: &str,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let limits = &self.terms.limits;
        let uploads = limits.upload_total_bytes.saturating_add(UPLOAD_FRAMES);
        let passage = self.callback(path, uploads, &request)?;
        let answer = passage.send(&self.terms.outbound, request.into_body()).await?;
        Ok(answer.map(BodyExt::boxed_unsync))
    }

    /// The config's answer, the one that is read whole: what it says about
    /// upstreams stays here, and the rest goes inside.
    async fn pass_config(
        &self,
        request: Request<Incoming>,
        notes: mpsc::Sender<Note>,
    ) -> Result<Response<Body>, Refusal> {
        let passage = self.callback("/config", 0, &request)?;
        let answer = passage.send(&self.terms.outbound, request.into_body()).await?;
        if answer.status() != StatusCode::OK {
            return Ok(answer.map(BodyExt::boxed_unsync));
        }
        let bytes = answer.into_body().collect().await.map_err(of_body)?.to_bytes();
        let mut config: Value = serde_json::from_slice(&bytes).map_err(|_| Refusal::NotJson)?;
        let addresses = addresses::take(&mut config, &self.terms.link_url, self.agent.as_ref())?;
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(addresses));
        notes.send(Note::ConfigPassed).await.map_err(|_| Refusal::Ending)?;
        let mut response = Response::new(full_body(config.to_string()));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Ok(response)
    }

    fn callback(
        &self,
        path: &str,
        request_bytes: u64,
        request: &Request<Incoming>,
    ) -> Result<Passage, Refusal> {
        const PASSED: &[&str] = &["authorization", "content-type", "accept", "user-agent"];
        let agent = self.agent.as_ref().ok_or(Refusal::NoUpstream("callbacks"))?;
        let limits = &self.terms.limits;
        Ok(Passage {
            name: "workspace",
            method: request.method().clone(),
            target: agent.below(path, request.uri().query()),
            headers: headers::outward(request.headers(), Outward::Only(PASSED)),
            request_bytes,
            answer_bytes: limits.config_bytes,
            silence: Duration::from_millis(limits.callback_timeout_ms) + MARGIN,
            sent: Pulse::default(),
        })
    }

    /// A file from a place that the config names, for which it needs no token.
    async fn fetch(
        &self,
        name: &'static str,
        target: Target,
        answer_bytes: u64,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        const PASSED: &[&str] = &["accept", "range", "user-agent"];
        let passage = Passage {
            name,
            method: request.method().clone(),
            target: target.below("", request.uri().query()),
            headers: headers::outward(request.headers(), Outward::Only(PASSED)),
            request_bytes: 0,
            answer_bytes,
            silence: SILENCE,
            sent: Pulse::default(),
        };
        let answer = passage.send(&self.terms.outbound, request.into_body()).await?;
        Ok(answer.map(BodyExt::boxed_unsync))
    }

    async fn pass_workspace(
        &self,
        target: Target,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let passage = Passage {
            name: "workspace",
            method: request.method().clone(),
            target,
            headers: headers::outward(request.headers(), Outward::AllBut(&[])),
            request_bytes: self.terms.limits.bag_bytes,
            answer_bytes: self.terms.limits.bag_bytes,
            silence: SILENCE,
            sent: Pulse::default(),
        };
        let answer = passage.send(&self.terms.outbound, request.into_body()).await?;
        Ok(answer.map(BodyExt::boxed_unsync))
    }

    async fn pass_mcp(
        &self,
        number: usize,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let known = self.known()?;
        let server = known.mcp.get(number).and_then(Option::as_ref);
        let server = server.ok_or(Refusal::NoUpstream("such MCP server"))?;
        let dropped = Outward::AllBut(&["authorization"]);
        let mut headers = headers::outward(request.headers(), dropped);
        headers.extend(server.headers.iter().filter_map(|header| header.pair()));
        let limits = &self.terms.limits;
        let passage = Passage {
            name: "MCP server",
            method: request.method().clone(),
            target: server.target.below("", request.uri().query()),
            headers,
            request_bytes: limits.bag_bytes,
            answer_bytes: limits.bag_bytes,
            // A tool may think for as long as a tool may take.
            silence: Duration::from_millis(limits.tool_timeout_ms) + MARGIN,
            sent: Pulse::default(),
        };
        let answer = passage.send(&self.terms.outbound, request.into_body()).await?;
        Ok(answer.map(BodyExt::boxed_unsync))
    }

    pub(super) fn known(&self) -> Result<Arc<Addresses>, Refusal> {
        self.addresses().ok_or(Refusal::NoConfigYet)
    }

    /// Longest silence of a model.
    pub(super) fn model_silence(&self) -> Duration {
        Duration::from_millis(self.terms.limits.model_timeout_ms) + MARGIN
    }
}

fn of_body(err: BoxError) -> Refusal {
    let from = "workspace";
    match cut_within(&*err) {
        Some(cut) => Refusal::of_cut(from, cut),
        None => Refusal::Broken { from },
    }
}
