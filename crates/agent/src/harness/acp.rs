//! The Agent Client Protocol, which OpenCode and Grok Build speak: JSON-RPC on
//! the pipes of the CLI, with us as the editor that has neither files nor
//! terminals to offer.
//!
//! ```text
//! initialize ──► session/new | session/resume | session/load ──► session/prompt ──► its answer
//!                     what was said before, told again               │    ▲
//!                     by the CLI, is not heard                       ▼    │
//!                                           session/update: text, thoughts, calls
//!                                           session/request_permission: asked of the gate
//! ```
//!
//! A CLI ends its turn when something is not allowed, without telling its model
//! why. The model is told, and the turn goes on, a bounded number of times.
//! What the protocol leaves out (see `aside`) may come in on another way. Once
//! the session is closed its files are whole, and nobody waits for the CLI.

mod aside;
mod call;
mod decoder;
mod ending;
mod line;
mod message;
mod opening;
mod permission;
mod servers;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until};
use wire::run::{ErrorCode, Level};

use super::Finished;
use super::child::Child;
use super::job::Job;
use super::steps::Steps;
use crate::failure::Failure;
use crate::model::ModelError;
use crate::policy::Ruled;

pub(super) use aside::{Asides, Failing, Speaker};
pub(super) use call::Dialect;

use decoder::{Decoder, Heard};
use ending::Stop;
use line::{Broken, Line};
use message::Incoming;

/// How long after the model's own time a CLI may say that it was too long.
const MARGIN: Duration = Duration::from_secs(10);
/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often a model is told that something is not allowed.
const REMINDERS: u32 = 10;
/// How often a model may fail in a row.
const ATTEMPTS: u64 = 2;

/// What is special about a CLI.
pub(super) struct Manner {
    pub(super) program: &'static str,
    pub(super) dialect: Dialect,
    /// The CLI's own additions to the opening of a session.
    pub(super) meta: Map<String, Value>,
    /// The model of a session that goes on, for a CLI that would go on with the
    /// one it remembers.
    pub(super) model: Option<&'static str>,
    /// How a CLI that opens a session before it has connected to the MCP servers
    /// says that it has.
    pub(super) connected: Option<&'static str>,
    pub(super) asides: Asides,
}

/// Runs one turn of a CLI that was started.
pub(super) async fn run(job: &Job<'_>, child: Child, manner: Manner) -> Result<Finished, Failure> {
    let program = manner.program;
    let line = Line::new(child, program, manner.connected);
    let mut talk = Talk { job, line, manner, steps: Steps::new(job.out) };
    let held = talk.hold().await;
    talk.steps.interrupt_all();
    let held = match held {
        Ok(message) => Ok(Finished { message, session_id: job.announced().map(str::to_owned) }),
        Err(Broken::Failed(failure)) => Err(failure),
        Err(Broken::Gone) => return Err(talk.line.child.end().await.without_result(program)),
    };
    talk.line.close(job.announced()).await;
    held
}

struct Talk<'t> {
    job: &'t Job<'t>,
    line: Line,
    manner: Manner,
    steps: Steps<'t>,
}

/// How a prompt was answered.
struct Answered {
    answer: Value,
    /// What was not allowed on the way, and why.
    denied: Vec<String>,
}

impl Talk<'_> {
    async fn hold(&mut self) -> Result<String, Broken> {
        let servers = self.job.mcp_servers();
        let session_id = opening::open(self.job, &mut self.line, &servers, &self.manner).await?;
        let mut extra = Map::new();
        extra.insert("model".to_owned(), Value::from(self.job.session.config.model.name.as_str()));
        self.job.announce(&session_id, extra);
        self.manner.asides.begin();
        if !servers.is_empty() {
            self.line.await_servers().await?;
        }
        let servers: Vec<String> = servers.iter().map(|server| server.name().to_owned()).collect();
        let limit = self.job.session.limits.tool_result_bytes;
        let mut decoder = Decoder::new(self.manner.dialect, &servers, &session_id, limit);
        let mut prompt = self.job.prompt.clone();
        let mut reminders = 0;
        loop {
            let Answered { answer, denied } =
                self.prompt(&session_id, &prompt, &mut decoder).await?;
            self.tell(decoder.end_turn());
            self.steps.interrupt_all();
            let stop = Stop::of(&answer);
            let stuck = !denied.is_empty() && !decoder.speaks();
            if stuck && reminders < REMINDERS {
                reminders += 1;
                prompt = reminder(&denied);
                continue;
            }
            return self.conclude(stop, denied.is_empty(), &decoder);
        }
    }

    /// Asks the model, and hears what happens until that is answered.
    async fn prompt(
        &mut self,
        session_id: &str,
        prompt: &str,
        decoder: &mut Decoder,
    ) -> Result<Answered, Broken> {
        let content = json!([{"type": "text", "text": prompt}]);
        let params = json!({"sessionId": session_id, "prompt": content});
        let number = self.line.ask("session/prompt", &params).await?;
        let mut denied = Vec::new();
        let mut heard = Instant::now();
        loop {
            let busy = decoder.tools_run();
            let patience = if busy { FOR_EVER } else { self.patience() };
            let line = tokio::select! {
                line = self.line.child.line() => line?.ok_or(Broken::Gone)?,
                failing = self.manner.asides.next() => {
                    if failing.session == session_id {
                        self.bear(&failing, decoder)?;
                        heard = Instant::now();
                    }
                    continue;
                }
                () = sleep_until(heard + patience) => {
                    let limit_ms = self.job.session.limits.model_timeout_ms;
                    return Err(Failure::from(ModelError::Timeout { limit_ms }).into());
                }
            };
            match Incoming::parse(&line) {
                Some(Incoming::Notice { method, params }) => {
                    let happened = decoder.notice(&method, &params);
                    // What a CLI tells of itself is no sign of life of its model.
                    if busy || !happened.is_empty() {
                        heard = Instant::now();
                    }
                    self.tell(happened);
                }
                Some(Incoming::Question { id, method, params }) => {
                    heard = Instant::now();
                    let reply = if method == "session/request_permission" {
                        let reply = self.permit(&params, decoder, &mut denied);
                        message::answer(&id, &reply)
                    } else {
                        message::not_offered(&id, &method)
                    };
                    self.line.write(&reply).await?;
                }
                Some(Incoming::Answer { id, answer }) if id == number => {
                    let answer = answer.map_err(|refusal| match refusal.blames_us() {
                        true => self.line.refused("session/prompt", &refusal),
                        false => self.job.model_failed(&refusal.words),
                    })?;
                    return Ok(Answered { answer, denied });
                }
                Some(Incoming::Answer { .. }) | None => {}
            }
        }
    }

    /// Asks the policy about a call.
    fn permit(&mut self, params: &Value, decoder: &mut Decoder, denied: &mut Vec<String>) -> Value {
        let tool_call = &params["toolCall"];
        let call_id = tool_call["toolCallId"].as_str().unwrap_or_default();
        self.tell(decoder.call(tool_call));
        let ruled = match decoder.shown(call_id) {
            Some(shown) => self.job.gate.rule(&permission::action(&shown, tool_call)),
            None => Ruled::Deny("the call is over".to_owned()),
        };
        if let Ruled::Deny(reason) = &ruled {
            decoder.deny(call_id, reason);
            denied.push(reason.clone());
        }
        permission::answer(&ruled, &params["options"])
    }

    /// Tells what happened.
    fn tell(&mut self, heard: Vec<Heard>) {
        for heard in heard {
            let None = self.job.tell(&mut self.steps, heard);
        }
    }

    /// Goes on with a model that failed, unless it failed often enough.
    fn bear(&mut self, failing: &Failing, decoder: &mut Decoder) -> Result<(), Failure> {
        let failure = self.job.model_failed(&failing.words);
        // A provider that did not answer in time is not asked again.
        if failing.attempt >= ATTEMPTS || failure.code == ErrorCode::ModelTimeout {
            return Err(failure);
        }
        self.tell(decoder.retry(&format!("the model is asked again: {}", failing.words)));
        Ok(())
    }

    fn conclude(&self, stop: Stop, allowed: bool, decoder: &Decoder) -> Result<String, Broken> {
        match stop {
            Stop::EndTurn => {}
            Stop::MaxTokens => {
                let message = "the model's answer was cut off by its token limit";
                self.job.out.log(Level::Warn, message);
            }
            Stop::MaxRequests => {
                let message = "no final message after as many rounds as there may be";
                return Err(Failure::new(ErrorCode::MaxRounds, message).into());
            }
            Stop::Cancelled if allowed => {
                return Err(self.line.failed("cancelled the turn").into());
            }
            Stop::Cancelled => {}
        }
        Ok(decoder.message())
    }

    /// How long the model may say nothing.
    fn patience(&self) -> Duration {
        Duration::from_millis(self.job.session.limits.model_timeout_ms) + MARGIN
    }
}

/// What a model is told whose turn ended because something was not allowed.
fn reminder(denied: &[String]) -> String {
    let reasons = denied.join("\n- ");
    format!(
        "This was not done:\n- {reasons}\n\nDo not try it again in another way. Go on with what \
         is allowed, or say what is left to do."
    )
}

#[cfg(test)]
mod tests;
