//! A turn: the model is asked, its tools are run, until it has nothing left to
//! call.
//!
//! ```text
//! prompt ──► model ──► text only ──► the final message
//!              ▲  └──► tool calls ──► steps, side by side ─┐
//!              └────────────── their results ◄─────────────┘   at most max_rounds times
//! ```
//!
//! A tool's failure goes back to the model. A model's failure ends the run. A call
//! that is the caller's to execute ends the turn: what it returns comes with the
//! next one.

mod history;
mod listener;

use futures_util::{StreamExt, stream};
use wire::run::{ErrorCode, Level, Outcome};

use crate::{
    emit::Emitter,
    failure::Failure,
    mcp::Servers,
    model::{self, Conversation, Entry, Model, Stop, ToolCall, ToolOutcome, ToolResult},
    session::Session,
    skills,
    tools::{self, Toolbox},
};

use listener::Reader;

/// Tool calls of one round that run at the same time.
const SIDE_BY_SIDE: usize = 8;

/// Runs the turn; the final message, or why there is none.
pub(crate) async fn run(session: &Session, out: &Emitter) -> Result<String, Failure> {
    let skills = skills::open(&session.skills);
    let servers = Servers::connect(session, out).await;
    let toolbox = Toolbox::new(session, &skills, &servers, out);
    let conversation = Conversation {
        system: system_prompt(&session.config.system_prompt, &skills::instructions(&skills)),
        entries: history::entries(&session.config.messages, &session.prompt),
        tools: toolbox.specs(),
    };
    let model = model::of(session);
    let rounds = Rounds { model, toolbox, out, most: session.config.max_rounds };
    let ended = rounds.run(conversation).await;
    servers.close().await;
    ended
}

struct Rounds<'a> {
    model: Box<dyn Model>,
    toolbox: Toolbox<'a>,
    out: &'a Emitter,
    /// Rounds of tool calls before the turn gives up.
    most: u32,
}

impl Rounds<'_> {
    async fn run(&self, mut conversation: Conversation) -> Result<String, Failure> {
        for round in 0..=self.most {
            let reader = Reader::new(self.out, round);
            let answer = self.model.answer(&conversation, &reader).await?;
            if answer.stop == Stop::Length {
                self.out.log(Level::Warn, "the model's answer was cut off by its token limit");
            }
            if answer.calls.is_empty() {
                return Ok(answer.text);
            }
            if round == self.most {
                break;
            }
            let called = self.call_all(&answer.calls).await;
            // What the caller is to execute comes back with its next message.
            if called.iter().any(|called| called.deferred) {
                return Ok(answer.text);
            }
            let results = called.into_iter().map(|called| called.result).collect();
            conversation.entries.push(Entry::Answer(answer));
            conversation.entries.push(Entry::Results(results));
        }
        let rounds = if self.most == 1 { "round" } else { "rounds" };
        let message = format!("no final message after {} {rounds} of tool calls", self.most);
        Err(Failure::new(ErrorCode::MaxRounds, message))
    }

    /// Runs the calls of one answer; results come in the order of the calls.
    async fn call_all(&self, calls: &[ToolCall]) -> Vec<Called> {
        let calls = stream::iter(calls).map(|call| self.call(call));
        calls.buffered(SIDE_BY_SIDE).collect().await
    }

    async fn call(&self, call: &ToolCall) -> Called {
        if let Some(outcome) = self.toolbox.call_by_host(call).await {
            return Called::new(call, &outcome);
        }
        let (name, args) = self.toolbox.shown(call);
        let step = self.out.step(name, args);
        let outcome = self.toolbox.call(call).await;
        let called = Called::new(call, &outcome);
        step.end(outcome);
        called
    }
}

/// A call that was made.
struct Called {
    result: ToolResult,
    /// Whether the caller is yet to execute it.
    deferred: bool,
}

impl Called {
    fn new(call: &ToolCall, outcome: &Outcome) -> Called {
        let went = match outcome {
            Outcome::Succeeded { .. } | Outcome::Deferred => ToolOutcome::Succeeded,
            Outcome::Failed { .. } => ToolOutcome::Failed,
        };
        let content = tools::told(outcome);
        Called {
            result: ToolResult { call: call.id.clone(), content, outcome: went },
            deferred: *outcome == Outcome::Deferred,
        }
    }
}

fn system_prompt(given: &str, skills: &str) -> String {
    let parts: Vec<&str> = [given, skills].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}
