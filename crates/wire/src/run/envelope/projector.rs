//! A run's log as envelope lines.

use std::collections::HashMap;

use serde_json::json;

use super::{EnvelopeLine, Progress};
use crate::run::{Event, Outcome, RunEvent, StepId};

/// Makes envelope lines from the entries of one log, in their order.
///
/// It remembers the names of steps that run, since the line that ends a step
/// bears its name and the entry does not. To go on from the middle of a log,
/// feed it the entries before and throw those lines away.
#[derive(Clone, Debug, Default)]
pub struct EnvelopeProjector {
    names: HashMap<StepId, String>,
}

impl EnvelopeProjector {
    /// A projector at the beginning of a log.
    pub fn new() -> EnvelopeProjector {
        EnvelopeProjector::default()
    }

    /// The line for an entry; `None` for what the envelope does not show.
    pub fn project(&mut self, entry: &RunEvent) -> Option<EnvelopeLine> {
        let ts = Some(entry.ts);
        match &entry.event {
            Event::Log { level, message } => {
                Some(EnvelopeLine::Log { level: *level, message: message.clone(), ts })
            }
            Event::StepStarted { id, name, args } => {
                self.names.insert(id.clone(), name.clone());
                Some(EnvelopeLine::Step {
                    id: id.clone(),
                    name: name.clone(),
                    progress: Progress::Running { args: args.clone() },
                    ts,
                })
            }
            Event::StepEnded { id, outcome, duration_ms } => Some(EnvelopeLine::Step {
                id: id.clone(),
                // A log that the ledger made has no end without its start.
                name: self.names.remove(id)?,
                progress: ended(outcome, *duration_ms),
                ts,
            }),
            Event::Result { message } => {
                Some(EnvelopeLine::Result { message: message.clone(), ts })
            }
            Event::Error { code, message } => Some(EnvelopeLine::Error {
                code: code.name().to_owned(),
                message: message.clone(),
                ts,
            }),
            Event::Started { .. }
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::Usage { .. }
            | Event::File { .. }
            | Event::Uploaded { .. }
            | Event::Custom { .. } => None,
        }
    }
}

fn ended(outcome: &Outcome, duration_ms: u64) -> Progress {
    match outcome {
        Outcome::Succeeded { result, truncated } => {
            Progress::Succeeded { result: result.clone(), truncated: *truncated, duration_ms }
        }
        // The seed's failed line has the message alone; what the tool returned
        // all the same is in the log.
        Outcome::Failed { error, result: _ } => {
            Progress::Failed { error: error.clone(), duration_ms: Some(duration_ms) }
        }
        // The seed's envelope has no word for it; the call itself went well.
        Outcome::Deferred => Progress::Succeeded {
            result: json!({"status": "deferred"}),
            truncated: false,
            duration_ms,
        },
    }
}
