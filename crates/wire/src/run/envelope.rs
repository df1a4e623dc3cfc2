//! The envelope: the four kinds of NDJSON line that a caller of a run reads.
//!
//! Seed 000 is the contract, byte by byte. `projector` makes lines from a run's
//! log; `parse` is for the caller's side, where the runner may be somebody
//! else's: it is strict in what a line means and passes over fields it does not
//! know; `checker` holds a whole stream to the rules.

mod checker;
mod projector;

use serde::Serialize;
use serde_json::Value;

use super::{BadLine, Level, StepId, line, object::Object};

pub use checker::{EnvelopeChecker, Violation};
pub use projector::EnvelopeProjector;

/// One line of the envelope.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum EnvelopeLine {
    /// A free-form diagnostic, for traces.
    Log {
        /// How much it matters.
        level: Level,
        /// The text.
        message: String,
        /// When, in Unix milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        ts: Option<u64>,
    },
    /// A step began or ended; lines of one step share its id.
    Step {
        /// The step.
        id: StepId,
        /// The tool, recipe or skill that it runs.
        name: String,
        /// How far it is.
        #[serde(flatten)]
        progress: Progress,
        /// When, in Unix milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        ts: Option<u64>,
    },
    /// The final message of the assistant. Terminal.
    Result {
        /// The text.
        message: String,
        /// When, in Unix milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        ts: Option<u64>,
    },
    /// There is no final message. Terminal.
    Error {
        /// Why. Runners of others have codes of their own.
        code: String,
        /// What happened.
        message: String,
        /// When, in Unix milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        ts: Option<u64>,
    },
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Progress {
    /// It was called.
    Running {
        /// The arguments, as the model gave them.
        args: Value,
    },
    /// It returned.
    Succeeded {
        /// What the tool returned.
        result: Value,
        /// Whether `result` is only its beginning, as text.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        /// How long it took.
        #[serde(rename = "durationMs")]
        duration_ms: u64,
    },
    /// It did not return.
    Failed {
        /// What went wrong.
        error: String,
        /// How long it took. We always say; the seed does not ask others to.
        #[serde(rename = "durationMs", skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
}

impl EnvelopeLine {
    /// Reads a line from a runner, with or without its line break.
    pub fn parse(line: &[u8]) -> Result<EnvelopeLine, BadLine> {
        let mut object = Object::parse(line)?;
        let kind = object.text("type")?;
        // The type comes first, so that an unknown one is called that.
        match kind.as_str() {
            "log" => Ok(EnvelopeLine::Log {
                level: object.read("level", "`debug`, `info`, `warn` or `error`")?,
                message: object.text("message")?,
                ts: timestamp(&mut object)?,
            }),
            "step" => Ok(EnvelopeLine::Step {
                id: object.read("id", "a step id")?,
                name: object.text("name")?,
                progress: Progress::parse(&mut object)?,
                ts: timestamp(&mut object)?,
            }),
            "result" => Ok(EnvelopeLine::Result {
                message: object.text("message")?,
                ts: timestamp(&mut object)?,
            }),
            "error" => Ok(EnvelopeLine::Error {
                code: object.text("code")?,
                message: object.text("message")?,
                ts: timestamp(&mut object)?,
            }),
            unknown => Err(BadLine::UnknownType(line::excerpt(unknown))),
        }
    }

    /// The line with its line break.
    pub fn to_line(&self) -> String {
        line::to_line(self)
    }

    /// Whether nothing may come after it.
    pub fn is_terminal(&self) -> bool {
        match self {
            EnvelopeLine::Result { .. } | EnvelopeLine::Error { .. } => true,
            EnvelopeLine::Log { .. } | EnvelopeLine::Step { .. } => false,
        }
    }
}

impl Progress {
    fn parse(object: &mut Object) -> Result<Progress, BadLine> {
        const DURATION: &str = "a number of milliseconds";
        match object.text("status")?.as_str() {
            "running" => Ok(Progress::Running { args: object.value("args")? }),
            "succeeded" => Ok(Progress::Succeeded {
                result: object.value("result")?,
                truncated: object.optional("truncated", "true or false")?.unwrap_or(false),
                duration_ms: object.read("durationMs", DURATION)?,
            }),
            "failed" => Ok(Progress::Failed {
                error: object.text("error")?,
                duration_ms: object.optional("durationMs", DURATION)?,
            }),
            _ => Err(BadLine::Wrong {
                field: "status",
                expected: "`running`, `succeeded` or `failed`",
            }),
        }
    }
}

fn timestamp(object: &mut Object) -> Result<Option<u64>, BadLine> {
    object.optional("ts", "a number of milliseconds")
}

#[cfg(test)]
mod tests;
