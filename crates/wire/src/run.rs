//! What a run does, as an ordered log of events, and the ways it is shown.
//!
//! ```text
//! agent ── AgentLine ──► Ledger ── RunEvent ──► the log ──► raw, envelope
//! ```
//!
//! An agent is hostile, so its lines become entries of the log only through the
//! `Ledger`, which numbers them and keeps the rules that readers rely on: every
//! step that starts ends, and exactly one terminal event comes, last. Every wire
//! format is a pure projection of the log. Who writes the log, and where, is in
//! the runner.

mod code;
pub mod custom;
mod envelope;
mod event;
mod id;
mod ledger;
mod limits;
mod line;
mod object;
#[cfg(test)]
pub(crate) mod strategies;
#[cfg(test)]
mod tests;

pub use code::ErrorCode;
pub use envelope::{EnvelopeChecker, EnvelopeLine, EnvelopeProjector, Progress, Violation};
pub use event::{AgentLine, Event, FileChange, Level, Outcome, RunEvent, Terminal, UploadedFile};
pub use id::{BadRunId, BadStepId, RunId, StepId};
pub use ledger::{BadLog, Ledger, Refusal};
pub use limits::{
    CUSTOM_NAME_LIMIT, LINE_LIMIT, MESSAGE_ID_LIMIT, MESSAGE_LIMIT, NAME_LIMIT, NOTE_LIMIT,
    PATH_LIMIT, STEPS_LIMIT, VALUE_LIMIT,
};
pub use line::{BadLine, to_raw};
