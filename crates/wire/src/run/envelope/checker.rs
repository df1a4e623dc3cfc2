//! The rules for a whole stream of envelope lines.
//!
//! ```text
//! step: running… ──► succeeded | failed        stream: (log | step)… ──► result | error
//! ```
//!
//! A step may say more than once that it runs; it ends once, under the name it
//! began with, and before the terminal line. A reader that meets a violation
//! knows that the runner is wrong, and can trust nothing that follows.

use std::collections::HashMap;

use super::{EnvelopeLine, Progress};
use crate::run::{STEPS_LIMIT, StepId};

/// Holds one stream to the rules.
#[derive(Clone, Debug, Default)]
pub struct EnvelopeChecker {
    steps: HashMap<StepId, Step>,
    running: usize,
    over: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Running { name: String },
    Ended,
}

/// How a stream breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A line comes after the terminal one.
    #[error("a line comes after the terminal line")]
    AfterTheEnd,
    /// The stream stops without a terminal line.
    #[error("the stream ends without a terminal line")]
    NoEnd,
    /// The terminal line comes too early.
    #[error("the terminal line comes while {running} steps are running")]
    StepsRunning {
        /// How many.
        running: usize,
    },
    /// A step ends that never began.
    #[error("step `{0}` ends without having been running")]
    NeverRunning(StepId),
    /// A step is heard of after its end.
    #[error("step `{0}` goes on after its end")]
    AfterItsEnd(StepId),
    /// Two steps share an id.
    #[error("step `{0}` changes its name")]
    Renamed(StepId),
    /// More steps than we keep in mind.
    #[error("the stream has more than {limit} steps")]
    TooManySteps {
        /// Steps allowed.
        limit: usize,
    },
}

impl EnvelopeChecker {
    /// A checker at the beginning of a stream.
    pub fn new() -> EnvelopeChecker {
        EnvelopeChecker::default()
    }

    /// Takes the next line.
    pub fn check(&mut self, line: &EnvelopeLine) -> Result<(), Violation> {
        if self.over {
            return Err(Violation::AfterTheEnd);
        }
        match line {
            EnvelopeLine::Log { .. } => Ok(()),
            EnvelopeLine::Step { id, name, progress, ts: _ } => match progress {
                Progress::Running { .. } => self.begin(id, name),
                Progress::Succeeded { .. } | Progress::Failed { .. } => self.end(id, name),
            },
            EnvelopeLine::Result { .. } | EnvelopeLine::Error { .. } if self.running > 0 => {
                Err(Violation::StepsRunning { running: self.running })
            }
            EnvelopeLine::Result { .. } | EnvelopeLine::Error { .. } => {
                self.over = true;
                Ok(())
            }
        }
    }

    /// Says whether the stream may end here.
    pub fn finish(&self) -> Result<(), Violation> {
        if self.over { Ok(()) } else { Err(Violation::NoEnd) }
    }

    fn begin(&mut self, id: &StepId, name: &str) -> Result<(), Violation> {
        if let Some(step) = self.steps.get(id) {
            return step.check(id, name);
        }
        if self.steps.len() >= STEPS_LIMIT {
            return Err(Violation::TooManySteps { limit: STEPS_LIMIT });
        }
        self.steps.insert(id.clone(), Step::Running { name: name.to_owned() });
        self.running += 1;
        Ok(())
    }

    fn end(&mut self, id: &StepId, name: &str) -> Result<(), Violation> {
        let step = self.steps.get_mut(id).ok_or_else(|| Violation::NeverRunning(id.clone()))?;
        step.check(id, name)?;
        *step = Step::Ended;
        self.running -= 1;
        Ok(())
    }
}

impl Step {
    /// Whether one more line may come for the step.
    fn check(&self, id: &StepId, name: &str) -> Result<(), Violation> {
        match self {
            Step::Running { name: known } if known == name => Ok(()),
            Step::Running { .. } => Err(Violation::Renamed(id.clone())),
            Step::Ended => Err(Violation::AfterItsEnd(id.clone())),
        }
    }
}
