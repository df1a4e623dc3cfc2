//! The events of a run: what agents write and what the log keeps.
//!
//! The log is one JSON object a line, and its bytes outlive the program that
//! wrote them: a later version still has to read every line that this one wrote.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ErrorCode, RunId, StepId};
use crate::SandboxId;

/// One entry of a run's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// Its place in the log, from 1 and without gaps.
    pub seq: u64,
    /// When it happened, in Unix milliseconds; never before the entry ahead of it.
    pub ts: u64,
    /// The agent's line that it came from, if it came from one. A runner that
    /// takes a run up again knows by it what it has had already.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What an agent writes, one a line: an event that has no place in the log yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentLine {
    /// The agent's own count of its lines, from 1 and without gaps, so that a
    /// reader that comes back knows which ones it has seen.
    pub n: u64,
    /// When it happened by the agent's clock, in Unix milliseconds.
    pub ts: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run began. Always the first entry, and only the runner says it.
    Started {
        /// The run.
        run_id: RunId,
        /// Where it happens, once that is known.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        sandbox_id: Option<SandboxId>,
        /// What runs the agent loop: `builtin`, `claude-code`, …
        harness: String,
        /// Whose model answers.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider: Option<String>,
        /// Which model answers.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        model: Option<String>,
        /// The conversation it belongs to, by the caller's name for it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        thread_id: Option<String>,
        /// The caller's own name for this run, if it chose one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        client_run_id: Option<String>,
    },
    /// A free-form diagnostic, for traces.
    Log {
        /// How much it matters.
        level: Level,
        /// The text.
        message: String,
    },
    /// A piece of what the assistant says.
    Text {
        /// The message that the piece belongs to.
        message_id: String,
        /// The piece.
        delta: String,
    },
    /// A piece of what the model thinks before it speaks.
    Reasoning {
        /// The message that the piece belongs to.
        message_id: String,
        /// The piece.
        delta: String,
    },
    /// A tool, recipe or skill is called.
    StepStarted {
        /// The call.
        id: StepId,
        /// What is called.
        name: String,
        /// The arguments, as the model gave them.
        args: Value,
    },
    /// The call is over.
    StepEnded {
        /// The call.
        id: StepId,
        /// How it went.
        #[serde(flatten)]
        outcome: Outcome,
        /// How long it took.
        duration_ms: u64,
    },
    /// Tokens used since the event of this kind before.
    Usage {
        /// Tokens read by the model, cached ones left out.
        input_tokens: u64,
        /// Tokens the model wrote.
        output_tokens: u64,
        /// Tokens read from the provider's cache.
        #[serde(default)]
        cache_read_tokens: u64,
        /// Tokens written to the provider's cache.
        #[serde(default)]
        cache_write_tokens: u64,
    },
    /// A file in the working directory changed.
    File {
        /// How.
        change: FileChange,
        /// Which, relative to the working directory.
        path: String,
    },
    /// The caller took the run's files.
    Uploaded {
        /// What it stored.
        files: Vec<UploadedFile>,
    },
    /// Something only one harness knows, passed on as it is.
    Custom {
        /// What it is.
        name: String,
        /// What it says.
        value: Value,
    },
    /// The final message of the assistant. Terminal.
    Result {
        /// The text.
        message: String,
    },
    /// The run ended without a final message. Terminal.
    Error {
        /// Why.
        code: ErrorCode,
        /// What happened, in words for the caller.
        message: String,
    },
}

impl Event {
    /// The `type` of every event.
    pub(super) const TYPES: [&str; 12] = [
        "started",
        "log",
        "text",
        "reasoning",
        "step_started",
        "step_ended",
        "usage",
        "file",
        "uploaded",
        "custom",
        "result",
        "error",
    ];

    /// Whether nothing may come after it.
    pub fn is_terminal(&self) -> bool {
        match self {
            Event::Result { .. } | Event::Error { .. } => true,
            Event::Started { .. }
            | Event::Log { .. }
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::StepStarted { .. }
            | Event::StepEnded { .. }
            | Event::Usage { .. }
            | Event::File { .. }
            | Event::Uploaded { .. }
            | Event::Custom { .. } => false,
        }
    }
}

/// The end of a run: one of the two terminal events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// The final message of the assistant.
    Result {
        /// The text.
        message: String,
    },
    /// There is no final message.
    Error {
        /// Why.
        code: ErrorCode,
        /// What happened, in words for the caller.
        message: String,
    },
}

impl From<Terminal> for Event {
    fn from(terminal: Terminal) -> Event {
        match terminal {
            Terminal::Result { message } => Event::Result { message },
            Terminal::Error { code, message } => Event::Error { code, message },
        }
    }
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For whoever writes agents.
    Debug,
    /// The usual course.
    Info,
    /// Something is off, and the run goes on.
    Warn,
    /// Something failed.
    Error,
}

/// How a step went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It returned.
    Succeeded {
        /// What the tool returned.
        result: Value,
        /// Whether `result` is only its beginning, as text.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        truncated: bool,
    },
    /// It did not.
    Failed {
        /// What went wrong.
        error: String,
        /// What the tool returned all the same.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        result: Option<Value>,
    },
    /// It is the caller's to execute once this run is over; the next run brings
    /// what it returned.
    Deferred,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It is new.
    Create,
    /// Its content changed.
    Change,
    /// It is gone.
    Delete,
}

/// A file that the caller stored, as its answer to the upload names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UploadedFile {
    /// The caller's id.
    pub id: String,
    /// The name the file had.
    pub name: String,
    /// What it holds.
    pub mime_type: String,
    /// How large it is, in bytes.
    pub size: u64,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
    /// Where the caller keeps it.
    pub storage_key: String,
}
