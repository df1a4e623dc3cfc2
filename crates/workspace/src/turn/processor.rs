//! A runner's lines, strictly parsed, as events of a turn.
//!
//! The runner may be somebody else's, and what it says may come from a sandbox.
//! A line that is not understood ends the turn: nothing after it can be trusted.

use std::collections::HashMap;

use serde_json::Value;
use wire::run::{BadLine, EnvelopeLine, EnvelopeProjector, Event, RunEvent, StepId};

use super::event::{Ending, FileSeen, LogLine, Piece, Step, TurnEvent, Usage};
use crate::runner::Format;

/// Turns the lines of one run into events.
#[derive(Debug)]
pub(super) struct Processor {
    format: Format,
    /// Knows the names of running steps, which raw entries do not repeat.
    projector: EnvelopeProjector,
    /// The number of the last entry, in the runner's count.
    seq: u64,
}

/// What a line says.
#[derive(Debug, PartialEq)]
pub(super) struct Heard {
    pub(super) said: Said,
    /// The runner's number of the entry, if it counts.
    pub(super) upstream: Option<u64>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Event(TurnEvent),
    /// Files came into the bag, says the sandbox; these are their ids.
    Uploaded(Vec<String>),
    /// Nothing comes after it.
    End(Ending),
}

/// Why a stream cannot be read on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadStream {
    #[error("the sandbox runner sent a line that is not understood: {0}")]
    Line(#[from] BadLine),
    #[error("the sandbox runner left entries out: {after} comes after {before}")]
    Gap { before: u64, after: u64 },
    #[error("the sandbox runner ended a step that never began")]
    NoStep,
}

impl Processor {
    /// For a run from its beginning.
    pub(super) fn new(format: Format) -> Processor {
        Processor { format, projector: EnvelopeProjector::new(), seq: 0 }
    }

    /// For a run whose first events were heard by a former server: `seq` is the
    /// last entry that is in the store, `steps` are the names of those that run.
    pub(super) fn resumed(seq: u64, steps: HashMap<StepId, String>) -> Processor {
        let mut processor = Processor { seq, ..Processor::new(Format::Raw) };
        for (id, name) in steps {
            let event = Event::StepStarted { id, name, args: Value::Null };
            processor.projector.project(&RunEvent { seq: 0, ts: 0, line: None, event });
        }
        processor
    }

    /// What it reads.
    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// The number of the last entry that was heard.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// Reads a line; `None` for what a turn does not show.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<Heard>, BadStream> {
        match self.format {
            Format::Raw => self.raw(RunEvent::parse_line(line)?),
            Format::Envelope => {
                let said = envelope(EnvelopeLine::parse(line)?);
                Ok(Some(Heard { said, upstream: None }))
            }
        }
    }

    fn raw(&mut self, entry: RunEvent) -> Result<Option<Heard>, BadStream> {
        if entry.seq != self.seq + 1 {
            return Err(BadStream::Gap { before: self.seq, after: entry.seq });
        }
        self.seq = entry.seq;
        let upstream = Some(entry.seq);
        let said = match entry.event {
            Event::StepStarted { .. } | Event::StepEnded { .. } => {
                let step = self.projector.project(&entry).and_then(Step::of_line);
                Said::Event(TurnEvent::Step(step.ok_or(BadStream::NoStep)?))
            }
            Event::Log { level, message } => {
                Said::Event(TurnEvent::Log(LogLine { level, message }))
            }
            Event::Text { message_id, delta } => {
                Said::Event(TurnEvent::Text(Piece { message_id, delta }))
            }
            Event::Reasoning { message_id, delta } => {
                Said::Event(TurnEvent::Reasoning(Piece { message_id, delta }))
            }
            Event::Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } => {
                Said::Event(TurnEvent::Usage(Usage {
                    input_tokens,
                    output_tokens,
                    cache_read_tokens,
                    cache_write_tokens,
                }))
            }
            Event::File { change, path } => Said::Event(TurnEvent::File(FileSeen { change, path })),
            Event::Uploaded { files } => {
                Said::Uploaded(files.into_iter().map(|file| file.id).collect())
            }
            Event::Result { message } => Said::End(Ending::Answered { message }),
            Event::Error { code, message } => {
                Said::End(Ending::Failed { code: code.name().to_owned(), message })
            }
            Event::Started { .. } | Event::Custom { .. } => return Ok(None),
        };
        Ok(Some(Heard { said, upstream }))
    }
}

fn envelope(line: EnvelopeLine) -> Said {
    match line {
        EnvelopeLine::Log { level, message, ts: _ } => {
            Said::Event(TurnEvent::Log(LogLine { level, message }))
        }
        EnvelopeLine::Step { id, name, progress, ts } => {
            Said::Event(TurnEvent::Step(Step { id, name, progress, ts }))
        }
        EnvelopeLine::Result { message, ts: _ } => Said::End(Ending::Answered { message }),
        EnvelopeLine::Error { code, message, ts: _ } => Said::End(Ending::Failed { code, message }),
    }
}

#[cfg(test)]
mod tests;
