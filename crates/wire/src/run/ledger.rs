//! The rules of a run's log, kept against whatever an agent writes.
//!
//! ```text
//! empty ── started ──► open ── result | error ──► finished
//!
//! step: unknown ── step_started ──► running ── step_ended ──► ended
//! ```
//!
//! What comes out of here is numbered without gaps, never goes back in time, has
//! each step start once and end once, and has exactly one terminal event, last:
//! steps that still run when it comes are ended as interrupted first. What would
//! break a rule is refused, and the reason is for the log of whoever asked.
//! There is no clock: the caller says what time it is.

use std::{borrow::Borrow, collections::HashMap};

use super::{
    AgentLine, Event, Outcome, RunEvent, StepId, Terminal,
    limits::{STEPS_LIMIT, bounded},
};

/// The state of one run's log.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    seq: u64,
    ts: u64,
    steps: HashMap<StepId, Step>,
    finished: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Running { seq: u64, since: u64 },
    Ended,
}

/// Why an event does not go into the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An agent claimed to be the runner.
    #[error("only the runner says that a run started")]
    NotTheRunner,
    /// The run began already.
    #[error("the run has started already")]
    StartedTwice,
    /// The run has not begun.
    #[error("the run has not started")]
    NotStarted,
    /// The terminal event is in the log.
    #[error("the run is over")]
    Finished,
    /// A step's id was used before.
    #[error("step `{0}` has started already")]
    StepStartedTwice(StepId),
    /// A step ends that never started.
    #[error("step `{0}` never started")]
    StepNeverStarted(StepId),
    /// A step ends again.
    #[error("step `{0}` has ended already")]
    StepEndedTwice(StepId),
    /// One more step than a run may have.
    #[error("a run has at most {limit} steps")]
    TooManySteps {
        /// Steps allowed.
        limit: usize,
    },
    /// Something too long that cannot be cut, since others refer to it.
    #[error("{what} is longer than {limit} bytes")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// Bytes allowed.
        limit: usize,
    },
}

/// Why a log cannot be taken up again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLog {
    /// An entry is missing or is there twice.
    #[error("entry {expected} of the log is numbered {found}")]
    Number {
        /// The number that should come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// An entry breaks a rule.
    #[error("entry {seq} of the log breaks a rule")]
    Rule {
        /// The entry.
        seq: u64,
        /// The rule.
        source: Refusal,
    },
    /// The terminal event came while a step was running.
    #[error("the log ends while a step is running")]
    StepsRunning,
}

impl Ledger {
    /// The ledger of a log that has nothing in it.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// The ledger of a log that was written before, to go on from its last entry.
    pub fn replay<E: Borrow<RunEvent>>(log: impl IntoIterator<Item = E>) -> Result<Ledger, BadLog> {
        let mut ledger = Ledger::new();
        for entry in log {
            let entry = entry.borrow();
            let expected = ledger.seq + 1;
            if entry.seq != expected {
                return Err(BadLog::Number { expected, found: entry.seq });
            }
            ledger.check(&entry.event).map_err(|source| BadLog::Rule { seq: entry.seq, source })?;
            if entry.event.is_terminal() && !ledger.running().is_empty() {
                return Err(BadLog::StepsRunning);
            }
            ledger.record(&entry.event, entry.ts);
        }
        Ok(ledger)
    }

    /// Takes what an agent wrote, and adds to `out` what goes into the log for
    /// it. Its time is believed as long as it is neither past nor future.
    pub fn accept(
        &mut self,
        line: AgentLine,
        now: u64,
        out: &mut Vec<RunEvent>,
    ) -> Result<(), Refusal> {
        if let Event::Started { .. } = line.event {
            return Err(Refusal::NotTheRunner);
        }
        self.append(line.event, line.ts.min(now), out)?;
        // Steps that it interrupts come before it, and from nobody's line.
        if let Some(entry) = out.last_mut() {
            entry.line = Some(line.n);
        }
        Ok(())
    }

    /// Takes an event of the runner's own.
    pub fn append(
        &mut self,
        event: Event,
        now: u64,
        out: &mut Vec<RunEvent>,
    ) -> Result<(), Refusal> {
        self.check(&event)?;
        let event = bounded(event)?;
        if event.is_terminal() {
            self.interrupt(now, out);
        }
        self.push(event, now, out);
        Ok(())
    }

    /// Ends the log: steps that still run are interrupted, then comes the end.
    pub fn finish(
        &mut self,
        terminal: Terminal,
        now: u64,
        out: &mut Vec<RunEvent>,
    ) -> Result<(), Refusal> {
        self.append(terminal.into(), now, out)
    }

    /// The number of the last entry; 0 before the first.
    pub fn last_seq(&self) -> u64 {
        self.seq
    }

    /// Whether the terminal event is in the log.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    fn check(&self, event: &Event) -> Result<(), Refusal> {
        if self.finished {
            return Err(Refusal::Finished);
        }
        match event {
            Event::Started { .. } if self.seq > 0 => Err(Refusal::StartedTwice),
            // A run that fails before it starts still has its one terminal event.
            Event::Started { .. } | Event::Result { .. } | Event::Error { .. } => Ok(()),
            Event::Log { .. }
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::Usage { .. }
            | Event::File { .. }
            | Event::Uploaded { .. }
            | Event::Custom { .. } => self.check_started(),
            Event::StepStarted { id, .. } => {
                self.check_started()?;
                if self.steps.contains_key(id) {
                    return Err(Refusal::StepStartedTwice(id.clone()));
                }
                if self.steps.len() >= STEPS_LIMIT {
                    return Err(Refusal::TooManySteps { limit: STEPS_LIMIT });
                }
                Ok(())
            }
            Event::StepEnded { id, .. } => {
                self.check_started()?;
                match self.steps.get(id) {
                    Some(Step::Running { .. }) => Ok(()),
                    Some(Step::Ended) => Err(Refusal::StepEndedTwice(id.clone())),
                    None => Err(Refusal::StepNeverStarted(id.clone())),
                }
            }
        }
    }

    fn check_started(&self) -> Result<(), Refusal> {
        if self.seq == 0 { Err(Refusal::NotStarted) } else { Ok(()) }
    }

    fn interrupt(&mut self, now: u64, out: &mut Vec<RunEvent>) {
        for (_, since, id) in self.running() {
            let outcome = Outcome::Failed { error: "interrupted".into(), result: None };
            let duration_ms = now.max(self.ts) - since;
            self.push(Event::StepEnded { id, outcome, duration_ms }, now, out);
        }
    }

    /// The steps that run, in the order of their start.
    fn running(&self) -> Vec<(u64, u64, StepId)> {
        let mut running: Vec<_> = self
            .steps
            .iter()
            .filter_map(|(id, step)| match step {
                Step::Running { seq, since } => Some((*seq, *since, id.clone())),
                Step::Ended => None,
            })
            .collect();
        running.sort_unstable();
        running
    }

    fn push(&mut self, event: Event, now: u64, out: &mut Vec<RunEvent>) {
        self.record(&event, now);
        out.push(RunEvent { seq: self.seq, ts: self.ts, line: None, event });
    }

    /// Goes on to the state after an event that was checked.
    fn record(&mut self, event: &Event, ts: u64) {
        self.seq += 1;
        self.ts = self.ts.max(ts);
        match event {
            Event::StepStarted { id, .. } => {
                let step = Step::Running { seq: self.seq, since: self.ts };
                self.steps.insert(id.clone(), step);
            }
            Event::StepEnded { id, .. } => {
                self.steps.insert(id.clone(), Step::Ended);
            }
            Event::Result { .. } | Event::Error { .. } => self.finished = true,
            Event::Started { .. }
            | Event::Log { .. }
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::Usage { .. }
            | Event::File { .. }
            | Event::Uploaded { .. }
            | Event::Custom { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
