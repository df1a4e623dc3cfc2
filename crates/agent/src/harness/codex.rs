//! Codex, driven through its app server: JSON-RPC, one message a line.
//!
//! ```text
//! initialize ──► thread/start or thread/resume ──► turn/start ──► turn/completed ──► stdin closed
//!                                                      │ ▲
//!                            questions about commands ─┘ └─ what the policy says
//! ```
//!
//! With a policy, Codex asks before every command, every patch and every tool
//! of an MCP server. Without one it asks nothing. Its own sandbox stays out of
//! the way: the walls are around all of us.

mod answer;
mod decode;
mod flags;
mod items;
mod lines;
mod questions;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use wire::agent::{Provider, Ruling};
use wire::run::ErrorCode;

use super::Finished;
use super::child::Child;
use super::job::Job;
use super::steps::Steps;
use crate::failure::Failure;
use crate::policy::Action;
use crate::session::Session;

use decode::{Decoder, Own, Verdict};

/// The program.
const PROGRAM: &str = "codex";
/// Where it keeps its sessions, below the home: by year, month and day.
const SESSIONS: &str = ".codex/sessions";

/// Runs one turn.
pub(crate) async fn run(job: &mut Job<'_>) -> Result<Finished, Failure> {
    let model = job.model(&[Provider::OpenaiResponses])?;
    let child = job.spawn(flags::command(job, model))?;
    job.remind();
    let mut talk = Talk {
        job,
        child,
        steps: Steps::new(job.out),
        decoder: Decoder::default(),
        requests: 0,
        verdict: None,
    };
    let talked = talk.turn().await;
    talk.steps.interrupt_all();
    let ended = talk.child.end().await;
    match talked {
        Ok(message) => Ok(Finished { message, session_id: job.announced().map(str::to_owned) }),
        Err(Interrupted::Failed(failure)) => Err(failure),
        Err(Interrupted::Gone) => Err(ended.without_result(PROGRAM)),
    }
}

/// The files of a session: one, unless somebody copied it.
pub(crate) fn session_files(session: &Session, id: &str) -> Vec<PathBuf> {
    let end = format!("-{id}.jsonl");
    let mut files = Vec::new();
    let years = entries(&session.home.join(SESSIONS));
    let days = years.iter().flat_map(|year| entries(year)).flat_map(|month| entries(&month));
    for file in days.flat_map(|day| entries(&day)) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("rollout-") && name.ends_with(&end) && file.is_file() {
            files.push(file);
        }
    }
    files.sort_unstable();
    files
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// A turn as it happens.
struct Talk<'a> {
    job: &'a Job<'a>,
    child: Child,
    steps: Steps<'a>,
    decoder: Decoder,
    /// The id of our last request.
    requests: u64,
    verdict: Option<Verdict>,
}

/// Why a turn has no final message.
enum Interrupted {
    /// It failed, and Codex said so.
    Failed(Failure),
    /// Codex is gone, or does not listen any more.
    Gone,
}

impl Talk<'_> {
    async fn turn(&mut self) -> Result<String, Interrupted> {
        let client = json!({
            "name": "mayfly",
            "title": "Mayfly",
            "version": env!("CARGO_PKG_VERSION"),
        });
        self.ask("initialize", json!({"clientInfo": client})).await?.map_err(refused)?;
        self.write(&json!({"method": "initialized"})).await?;
        let thread = self.thread().await?;
        self.job.announce(&thread, Map::new());
        self.decoder.follow(&thread);
        let input = json!([{"type": "text", "text": self.job.prompt}]);
        let params = json!({"threadId": thread, "input": input});
        self.ask("turn/start", params).await?.map_err(refused)?;
        loop {
            match self.verdict.take() {
                Some(Verdict::Message(message)) => return Ok(message),
                Some(Verdict::Failed(words)) => {
                    return Err(Interrupted::Failed(self.job.model_failed(&words)));
                }
                None => {
                    self.hear().await?;
                }
            }
        }
    }

    /// Opens the thread that the turn belongs to; its id.
    async fn thread(&mut self) -> Result<String, Interrupted> {
        let mut params = thread_params(self.job);
        let opened = match &self.job.resume {
            None => self.ask("thread/start", params).await?.map_err(refused)?,
            Some(id) => {
                params["threadId"] = json!(id);
                params["excludeTurns"] = json!(true);
                let message = |words| format!("codex cannot go on with session `{id}`: {words}");
                self.ask("thread/resume", params).await?.map_err(|words| {
                    Interrupted::Failed(Failure::new(ErrorCode::BadRequest, message(words)))
                })?
            }
        };
        let id = opened.pointer("/thread/id").and_then(Value::as_str);
        id.map(str::to_owned).ok_or_else(|| refused("it opened a thread without an id".to_owned()))
    }

    /// Sends a request and hears everything up to its answer.
    async fn ask(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Result<Value, String>, Interrupted> {
        self.requests += 1;
        let id = self.requests;
        self.write(&json!({"id": id, "method": method, "params": params})).await?;
        loop {
            if let Some((answered, outcome)) = self.hear().await?
                && answered == id
            {
                return Ok(outcome);
            }
        }
    }

    /// Hears one line and does what follows from it. An answer to a request of
    /// ours is handed on.
    async fn hear(&mut self) -> Result<Option<(u64, Result<Value, String>)>, Interrupted> {
        let line = self.child.line().await.ok().flatten().ok_or(Interrupted::Gone)?;
        let mut answered = None;
        for heard in self.decoder.decode(&line) {
            let Some(own) = self.job.tell(&mut self.steps, heard) else { continue };
            match own {
                Own::Answer { id, outcome } => answered = Some((id, outcome)),
                Own::Question { id, question } => {
                    let answer = answer::to(&self.job.gate, &question);
                    if let Some((item, reason)) = answer.denied {
                        self.decoder.denied(item, reason);
                    }
                    let mut message = answer.message;
                    message["id"] = id;
                    self.write(&message).await?;
                }
                Own::Ended(verdict) => self.verdict = Some(verdict),
            }
        }
        Ok(answered)
    }

    async fn write(&mut self, message: &Value) -> Result<(), Interrupted> {
        self.child.write_line(&message.to_string()).await.map_err(|_| Interrupted::Gone)
    }
}

/// What a thread is opened with, new or not.
fn thread_params(job: &Job<'_>) -> Value {
    let approval = if job.gate.is_open() { "never" } else { "untrusted" };
    // The model is told which sandbox it is in. What the policy lets pass runs
    // outside of it.
    let sandbox = match job.gate.standing(&Action::FileWrite("")) {
        Ruling::Deny => "read-only",
        Ruling::Allow | Ruling::Ask => "danger-full-access",
    };
    let mut params = json!({
        "cwd": job.session.workspace_dir,
        "approvalPolicy": approval,
        "sandbox": sandbox,
    });
    // A thread that goes on would have the model that it began with.
    let model = &job.session.config.model.name;
    if !model.is_empty() {
        params["model"] = json!(model);
    }
    let system = job.system_prompt();
    if !system.is_empty() {
        params["developerInstructions"] = Value::String(system);
    }
    params
}

/// A request that Codex does not understand is our fault or its own.
fn refused(words: String) -> Interrupted {
    Interrupted::Failed(Failure::new(ErrorCode::Internal, format!("codex refused: {words}")))
}

#[cfg(test)]
mod tests;
