//! Tool calls: what is called, what it returned, and what the caller still has
//! to execute.
//!
//! A call is told whole the moment it is made, so none is ever open; what an
//! open step still owes is its result. Calls that the model made in one breath
//! belong to one message of the assistant: the text right before them, or else
//! one that is named like the first of them. Once one of them waits for the
//! caller, all that follow belong to its message.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::projector::{Metadata, custom, metadata};
use super::{AguiKind, AguiRole};
use crate::run::{Outcome, StepId, VALUE_LIMIT, custom};

/// Bytes of arguments that are kept until it is known who executes the call.
const KEPT_LIMIT: usize = 4 * VALUE_LIMIT;

/// How the ledger says that a step was cut off by the end of its run.
const INTERRUPTED: &str = "interrupted";

/// The calls of one run.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    /// The run's id, with which every call's id begins.
    run: String,
    running: HashMap<StepId, Call>,
    /// Bytes of arguments in `running`.
    kept: usize,
    /// The message that the next call belongs to.
    parent: Option<String>,
    /// Calls that are the caller's to execute.
    pending: Vec<String>,
    /// The message of the first of them.
    held: Option<String>,
}

#[derive(Clone, Debug)]
struct Call {
    name: String,
    args: String,
    parent: String,
}

impl Calls {
    pub(super) fn new(run: &str) -> Calls {
        Calls {
            run: run.to_owned(),
            running: HashMap::new(),
            kept: 0,
            parent: None,
            pending: Vec::new(),
            held: None,
        }
    }

    /// Says which message the next call follows.
    pub(super) fn follow(&mut self, message_id: Option<&str>) {
        if let Some(id) = message_id
            && self.parent.as_deref() != Some(id)
        {
            self.parent = Some(id.to_owned());
        }
    }

    pub(super) fn start(&mut self, id: &StepId, name: &str, args: &Value, out: &mut Vec<AguiKind>) {
        let tool_call_id = self.call_id(id);
        let parent = self.parent.get_or_insert_with(|| tool_call_id.clone()).clone();
        out.push(AguiKind::ToolCallStart {
            tool_call_id: tool_call_id.clone(),
            tool_call_name: name.to_owned(),
            parent_message_id: parent.clone(),
        });
        // Front ends send arguments back as they got them, and then they have to
        // be an object.
        let args = if args.is_null() { "{}".to_owned() } else { args.to_string() };
        out.push(AguiKind::ToolCallArgs {
            tool_call_id: tool_call_id.clone(),
            delta: args.clone(),
        });
        out.push(AguiKind::ToolCallEnd { tool_call_id });
        let args = if self.kept + args.len() > KEPT_LIMIT { String::new() } else { args };
        self.kept += args.len();
        self.running.insert(id.clone(), Call { name: name.to_owned(), args, parent });
    }

    pub(super) fn end(
        &mut self,
        id: &StepId,
        outcome: &Outcome,
        duration_ms: u64,
        out: &mut Vec<AguiKind>,
    ) -> Metadata {
        // A log that the ledger made has no end without its start.
        let call = self.running.remove(id)?;
        self.kept -= call.args.len();
        if let Outcome::Deferred = outcome {
            self.held.get_or_insert_with(|| call.parent.clone());
        }
        // What the model calls next, it calls knowing this.
        self.parent = self.held.clone();
        let tool_call_id = self.call_id(id);
        let content = match outcome {
            Outcome::Succeeded { result, truncated: _ } => as_text(result),
            Outcome::Failed { error, result: None } if error == INTERRUPTED => {
                json!({"status": INTERRUPTED}).to_string()
            }
            Outcome::Failed { error, result: None } => error.clone(),
            Outcome::Failed { error, result: Some(result) } => {
                json!({"error": error, "result": result}).to_string()
            }
            Outcome::Deferred => {
                out.push(available(&tool_call_id, &call));
                self.pending.push(tool_call_id);
                return None;
            }
        };
        out.push(AguiKind::ToolCallResult {
            message_id: format!("{tool_call_id}.result"),
            tool_call_id,
            content,
            role: AguiRole::Tool,
        });
        result_metadata(outcome, duration_ms)
    }

    /// The message that holds a call of the caller's.
    pub(super) fn held(&self) -> Option<&str> {
        self.held.as_deref()
    }

    /// The calls that nobody has executed.
    pub(super) fn take_pending(&mut self) -> Vec<String> {
        std::mem::take(&mut self.pending)
    }

    fn call_id(&self, id: &StepId) -> String {
        format!("{}.{id}", self.run)
    }
}

/// TanStack's client executes its own tool when it reads this; `@ag-ui/client`
/// goes by the calls that are pending when the run finishes.
fn available(tool_call_id: &str, call: &Call) -> AguiKind {
    // Arguments that were too much to keep are `null`.
    let input: Value = serde_json::from_str(&call.args).unwrap_or_default();
    let value = json!({"toolCallId": tool_call_id, "toolName": call.name, "input": input});
    custom(custom::CLIENT_TOOL, value)
}

fn result_metadata(outcome: &Outcome, duration_ms: u64) -> Metadata {
    let mut mayfly = json!({"durationMs": duration_ms});
    if let Outcome::Succeeded { truncated: true, .. } = outcome {
        mayfly["truncated"] = true.into();
    }
    let mut all = metadata("mayfly", mayfly)?;
    if let Outcome::Failed { .. } = outcome {
        all.insert("tanstack".into(), json!({"state": "output-error"}));
    }
    Some(all)
}

/// A text as it is, anything else as JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}
