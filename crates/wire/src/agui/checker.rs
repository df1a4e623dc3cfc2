//! The rules for a whole stream, as `@ag-ui/client` 1.0 enforces them.
//!
//! ```text
//! run:  RUN_STARTED ──► … ──► RUN_FINISHED | RUN_ERROR       or RUN_ERROR alone
//! text, tool call, reasoning, reasoning message:  start ──► content… ──► end
//! ```
//!
//! A second run may follow in the same stream, and a `RUN_ERROR` may follow a
//! `RUN_FINISHED`. Three rules are our own and stricter: a stream ends with a
//! terminal event, nothing is open at a `RUN_ERROR` either, and every call has
//! its result or is named as pending. What the types cannot say needs no rule
//! here: a step, a fraction, a `null` metadata, a custom event without value.

use std::collections::{BTreeMap, BTreeSet};

use super::{AguiEvent, AguiKind, AguiUsage, RunOutcome};

/// Holds one stream to the rules.
#[derive(Clone, Debug, Default)]
pub struct AguiChecker {
    phase: Phase,
    open: BTreeSet<(Thing, String)>,
    /// Calls of the run and whether each was answered.
    calls: BTreeMap<String, bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Empty,
    Running,
    Finished,
    Failed,
}

/// What opens and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// A message of text.
    Text,
    /// A tool call.
    ToolCall,
    /// A span of reasoning.
    Reasoning,
    /// A message of reasoning.
    ReasoningMessage,
}

/// How a stream breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The stream begins with something else.
    #[error("the first event is neither RUN_STARTED nor RUN_ERROR")]
    NotStarted,
    /// A run begins inside another.
    #[error("a run starts while one is running")]
    StartedTwice,
    /// An event comes after the terminal one.
    #[error("an event comes after the run's end")]
    AfterTheEnd,
    /// The stream stops without a terminal event.
    #[error("the stream ends without a terminal event")]
    NoEnd,
    /// The same thing opens twice.
    #[error("{thing:?} `{id}` is open already")]
    OpenTwice {
        /// What.
        thing: Thing,
        /// Which.
        id: String,
    },
    /// Something goes on or closes that is not open.
    #[error("{thing:?} `{id}` is not open")]
    NotOpen {
        /// What.
        thing: Thing,
        /// Which.
        id: String,
    },
    /// The run ends too early.
    #[error("the run ends while {thing:?} `{id}` is open")]
    StillOpen {
        /// What.
        thing: Thing,
        /// Which.
        id: String,
    },
    /// A call has no result and is not pending.
    #[error("call `{0}` has no result")]
    Unanswered(String),
    /// A call is pending that has a result or was never made.
    #[error("call `{0}` is not pending")]
    NotPending(String),
    /// An integer is larger than JavaScript can hold.
    #[error("{0} is not a safe integer")]
    UnsafeInteger(u64),
}

impl AguiChecker {
    /// A checker at the beginning of a stream.
    pub fn new() -> AguiChecker {
        AguiChecker::default()
    }

    /// Takes the next event.
    pub fn check(&mut self, event: &AguiEvent) -> Result<(), Violation> {
        event.timestamp.map_or(Ok(()), safe)?;
        self.check_phase(&event.kind)?;
        match &event.kind {
            AguiKind::RunStarted { .. } => {
                self.calls.clear();
                self.phase = Phase::Running;
                Ok(())
            }
            AguiKind::RunFinished { outcome, usage, .. } => {
                let RunOutcome::Success { pending_tool_call_ids } = outcome;
                self.finish(usage)?;
                self.check_calls(pending_tool_call_ids)?;
                self.phase = Phase::Finished;
                Ok(())
            }
            AguiKind::RunError { usage, .. } => {
                self.finish(usage)?;
                self.phase = Phase::Failed;
                Ok(())
            }
            AguiKind::TextMessageStart { message_id, .. } => self.begin(Thing::Text, message_id),
            AguiKind::TextMessageContent { message_id, .. } => self.on(Thing::Text, message_id),
            AguiKind::TextMessageEnd { message_id } => self.close(Thing::Text, message_id),
            AguiKind::ReasoningStart { message_id } => self.begin(Thing::Reasoning, message_id),
            AguiKind::ReasoningEnd { message_id } => self.close(Thing::Reasoning, message_id),
            AguiKind::ReasoningMessageStart { message_id, .. } => {
                self.begin(Thing::ReasoningMessage, message_id)
            }
            AguiKind::ReasoningMessageContent { message_id, .. } => {
                self.on(Thing::ReasoningMessage, message_id)
            }
            AguiKind::ReasoningMessageEnd { message_id } => {
                self.close(Thing::ReasoningMessage, message_id)
            }
            AguiKind::ToolCallStart { tool_call_id, .. } => {
                self.calls.insert(tool_call_id.clone(), false);
                self.begin(Thing::ToolCall, tool_call_id)
            }
            AguiKind::ToolCallArgs { tool_call_id, .. } => self.on(Thing::ToolCall, tool_call_id),
            AguiKind::ToolCallEnd { tool_call_id } => self.close(Thing::ToolCall, tool_call_id),
            AguiKind::ToolCallResult { tool_call_id, .. } => {
                // One of a run before may be answered in this one.
                self.calls.insert(tool_call_id.clone(), true);
                Ok(())
            }
            AguiKind::Custom { .. } => Ok(()),
        }
    }

    /// Says whether the stream may end here.
    pub fn end(&self) -> Result<(), Violation> {
        match self.phase {
            Phase::Finished | Phase::Failed => Ok(()),
            Phase::Empty | Phase::Running => Err(Violation::NoEnd),
        }
    }

    fn check_phase(&self, kind: &AguiKind) -> Result<(), Violation> {
        let starts = matches!(kind, AguiKind::RunStarted { .. });
        let fails = matches!(kind, AguiKind::RunError { .. });
        match self.phase {
            Phase::Empty if !starts && !fails => Err(Violation::NotStarted),
            Phase::Running if starts => Err(Violation::StartedTwice),
            Phase::Finished if !starts && !fails => Err(Violation::AfterTheEnd),
            Phase::Failed if !starts => Err(Violation::AfterTheEnd),
            Phase::Empty | Phase::Running | Phase::Finished | Phase::Failed => Ok(()),
        }
    }

    fn begin(&mut self, thing: Thing, id: &str) -> Result<(), Violation> {
        if self.open.insert((thing, id.to_owned())) {
            Ok(())
        } else {
            Err(Violation::OpenTwice { thing, id: id.to_owned() })
        }
    }

    fn on(&self, thing: Thing, id: &str) -> Result<(), Violation> {
        let key = (thing, id.to_owned());
        if self.open.contains(&key) { Ok(()) } else { Err(Violation::NotOpen { thing, id: key.1 }) }
    }

    fn close(&mut self, thing: Thing, id: &str) -> Result<(), Violation> {
        let key = (thing, id.to_owned());
        if self.open.remove(&key) { Ok(()) } else { Err(Violation::NotOpen { thing, id: key.1 }) }
    }

    fn finish(&self, usage: &[AguiUsage]) -> Result<(), Violation> {
        for item in usage {
            safe(item.input_tokens)?;
            safe(item.output_tokens)?;
            safe(item.total_tokens)?;
            safe(item.cached_input_tokens)?;
            safe(item.cache_write_input_tokens)?;
        }
        match self.open.first() {
            None => Ok(()),
            Some((thing, id)) => Err(Violation::StillOpen { thing: *thing, id: id.clone() }),
        }
    }

    fn check_calls(&self, pending: &[String]) -> Result<(), Violation> {
        for id in pending {
            if self.calls.get(id) != Some(&false) {
                return Err(Violation::NotPending(id.clone()));
            }
        }
        match self.calls.iter().find(|(id, answered)| !**answered && !pending.contains(id)) {
            None => Ok(()),
            Some((id, _)) => Err(Violation::Unanswered(id.clone())),
        }
    }
}

fn safe(number: u64) -> Result<(), Violation> {
    if number <= AguiEvent::MAX_INTEGER { Ok(()) } else { Err(Violation::UnsafeInteger(number)) }
}
