//! What an adapter has to do, and what it has to do it with.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::process::Command;
use wire::Secret;
use wire::agent::{McpServer, ModelConfig, Provider, ToolBridge};
use wire::run::{ErrorCode, Event, Level, custom};

use super::child::Child;
use super::heard::Heard;
use super::prompt;
use super::steps::Steps;
use crate::emit::Emitter;
use crate::failure::Failure;
use crate::local_mcp::{self, LocalServer};
use crate::model::ModelError;
use crate::policy::Gate;
use crate::session::Session;

/// The name under which CLIs know the bridge to the caller's tools. Steps of
/// its tools are booked by the host, so that adapters keep quiet about them.
pub(crate) const BRIDGE: &str = "mayfly";

/// What CLIs and the host link say of a provider that took too long.
const LATE: [&str; 3] = ["request timed out", "did not answer within", "idle timeout"];

/// One turn of a CLI.
pub(crate) struct Job<'a> {
    pub(crate) session: &'a Session,
    pub(crate) out: &'a Emitter,
    /// What the policy says to an action; the one gate of the run.
    pub(crate) gate: Arc<Gate<'a>>,
    /// What the CLI is asked, with what was said before when it cannot know.
    pub(crate) prompt: String,
    /// The CLI's own session that goes on.
    pub(crate) resume: Option<String>,
    /// Where our own tools are served, if there are any for a CLI.
    local: Option<&'a LocalServer>,
    announced: OnceCell<String>,
}

/// An MCP server that a CLI is told of.
#[derive(Debug)]
pub(crate) enum Server {
    /// By streamable HTTP, on loopback.
    Http {
        name: String,
        url: String,
        /// What every request has to bring.
        bearer: Option<Secret<String>>,
    },
    /// A program that the CLI starts.
    Stdio { name: String, command: String, args: Vec<String>, env: BTreeMap<String, String> },
}

impl<'a> Job<'a> {
    pub(crate) fn new(session: &'a Session, out: &'a Emitter) -> Job<'a> {
        Job {
            session,
            out,
            gate: Arc::new(Gate::new(session, out)),
            prompt: prompt::compose(session),
            resume: session.resume.clone(),
            local: None,
            announced: OnceCell::new(),
        }
    }

    /// The same, with our own tools for the CLI.
    pub(crate) fn with_local(self, local: Option<&'a LocalServer>) -> Job<'a> {
        Job { local, ..self }
    }

    /// Says the system prompt with the prompt of a session that goes on, for a
    /// CLI that keeps to the one it began with.
    pub(crate) fn remind(&mut self) {
        let system = self.system_prompt();
        if self.resume.is_some() && !system.is_empty() {
            self.prompt = format!("{system}\n\n{}", self.prompt);
        }
    }

    /// Tells the CLI's own session, once, as soon as it is known.
    pub(crate) fn announce(&self, session_id: &str, extra: Map<String, Value>) {
        if self.announced.set(session_id.to_owned()).is_err() {
            return;
        }
        let mut value = extra;
        value.insert("sessionId".to_owned(), Value::from(session_id));
        self.out.custom(custom::session_id(self.session.harness), Value::Object(value));
    }

    /// Tells what any CLI says, and gives back what only one does.
    pub(crate) fn tell<Own>(&self, steps: &mut Steps<'_>, heard: Heard<Own>) -> Option<Own> {
        match heard {
            Heard::Text { message_id, delta } => self.out.emit(Event::Text { message_id, delta }),
            Heard::Reasoning { message_id, delta } => {
                self.out.emit(Event::Reasoning { message_id, delta });
            }
            Heard::CallStarted { id, name, args } => steps.start(&id, &name, args),
            Heard::CallEnded { id, outcome } => steps.end(&id, outcome),
            Heard::Plan(plan) => self.out.custom(format!("{}.plan", self.session.harness), plan),
            Heard::Log { level, message } => self.out.log(level, message),
            Heard::Own(own) => return Some(own),
        }
        None
    }

    /// The session that was told.
    pub(crate) fn announced(&self) -> Option<&str> {
        self.announced.get().map(String::as_str)
    }

    /// Where models are asked; the host link adds the key.
    pub(crate) fn model_url(&self) -> String {
        format!("{}/model", self.session.link)
    }

    /// The model, if the CLI can speak to its provider.
    pub(crate) fn model(&self, spoken: &[Provider]) -> Result<&'a ModelConfig, Failure> {
        let model = &self.session.config.model;
        if spoken.contains(&model.provider) {
            return Ok(model);
        }
        let known: Vec<&str> = spoken.iter().map(|provider| provider.as_str()).collect();
        let message = format!(
            "harness `{}` cannot use a model of provider `{}`; it can use `{}`",
            self.session.harness,
            model.provider.as_str(),
            known.join("`, `"),
        );
        Err(Failure::new(ErrorCode::BadRequest, message))
    }

    /// What a run says whose CLI could not use its model, in the CLI's words.
    pub(crate) fn model_failed(&self, words: &str) -> Failure {
        let lower = words.to_lowercase();
        if LATE.iter().any(|late| lower.contains(late)) {
            return ModelError::Timeout { limit_ms: self.session.limits.model_timeout_ms }.into();
        }
        ModelError::Reported(words.to_owned()).into()
    }

    /// What the CLI is told before the prompt: the configured text and skills.
    pub(crate) fn system_prompt(&self) -> String {
        prompt::system(self.session)
    }

    /// Where the caller's tools are, if there are any.
    pub(crate) fn bridge(&self) -> Option<&'a ToolBridge> {
        (!self.session.tools.is_empty()).then_some(&self.session.bridge)
    }

    /// Every MCP server for the CLI: the bridge and our own first, then those of
    /// the configuration. The one place to add more.
    pub(crate) fn mcp_servers(&self) -> Vec<Server> {
        let bridge = self.bridge().map(|bridge| Server::Http {
            name: BRIDGE.to_owned(),
            url: bridge.url.clone(),
            bearer: Some(bridge.bearer.clone()),
        });
        let local = self.local.map(|local| Server::Http {
            name: local_mcp::NAME.to_owned(),
            url: local.url.clone(),
            bearer: Some(local.bearer.clone()),
        });
        let is_taken =
            |name: &str| name == BRIDGE || (name == local_mcp::NAME && self.local.is_some());
        let configured = self.session.config.mcp_servers.iter().filter_map(|server| {
            let name = server.name();
            if is_taken(name) {
                let message = format!("MCP server `{name}` is left out: the name is taken");
                self.out.log(Level::Warn, message);
                return None;
            }
            Some(Server::of(server))
        });
        bridge.into_iter().chain(local).chain(configured).collect()
    }

    /// A command in the working directory with the session's variables.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        self.session.command(program)
    }

    /// Starts a CLI.
    pub(crate) fn spawn(&self, command: Command) -> Result<Child, Failure> {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        Child::spawn(command).map_err(|err| {
            if err.kind() != ErrorKind::NotFound {
                let message = format!("cannot start `{program}`: {err}");
                return Failure::new(ErrorCode::Internal, message);
            }
            let harness = self.session.harness;
            let message = format!(
                "`{program}` is not in this template; make one with \
                 `mayfly template add-harness {harness}`"
            );
            Failure::new(ErrorCode::BadRequest, message)
        })
    }
}

impl Server {
    fn of(server: &McpServer) -> Server {
        match server {
            // Headers are the host link's to add: none are known in here.
            McpServer::Http { name, url, headers: _ } => {
                Server::Http { name: name.clone(), url: url.clone(), bearer: None }
            }
            McpServer::Stdio { name, command, args, env } => Server::Stdio {
                name: name.clone(),
                command: command.clone(),
                args: args.clone(),
                env: env.clone(),
            },
        }
    }

    /// Its name in the names of its tools.
    pub(crate) fn name(&self) -> &str {
        match self {
            Server::Http { name, .. } | Server::Stdio { name, .. } => name,
        }
    }
}
