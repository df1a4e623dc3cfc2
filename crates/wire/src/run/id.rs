//! Names of runs and of the steps in them, each parsed once.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::random_name;

/// A run's public name: `run_` and 24 digits of base 32.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RunId(String);

/// The text is not a run id.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run id is `run_` and 24 digits of base 32")]
pub struct BadRunId;

/// A step's name within its run, chosen by the agent: `step_` and up to 64
/// letters, digits, dashes and underscores.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct StepId(String);

/// The text is not a step id.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a step id is `step_` and 1 to 64 letters, digits, `-` and `_`")]
pub struct BadStepId;

impl RunId {
    const PREFIX: &str = "run_";

    /// Reads an id from outside.
    pub fn parse(text: &str) -> Result<RunId, BadRunId> {
        if random_name::is_name(Self::PREFIX, text) {
            Ok(RunId(text.to_owned()))
        } else {
            Err(BadRunId)
        }
    }

    /// Makes an id from random bytes; no bit of them is lost.
    pub fn from_random(bytes: [u8; 15]) -> RunId {
        RunId(random_name::from_random(Self::PREFIX, bytes))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl StepId {
    const PREFIX: &str = "step_";
    const MAX: usize = 64;

    /// Reads an id from outside.
    pub fn parse(text: &str) -> Result<StepId, BadStepId> {
        let rest = text.strip_prefix(Self::PREFIX).ok_or(BadStepId)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if rest.is_empty() || rest.len() > Self::MAX || !rest.bytes().all(plain) {
            return Err(BadStepId);
        }
        Ok(StepId(text.to_owned()))
    }

    /// The id of a run's nth step, for agents that count theirs.
    pub fn from_number(number: u64) -> StepId {
        StepId(format!("{}{number}", Self::PREFIX))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RunId {
    type Error = BadRunId;

    fn try_from(text: String) -> Result<RunId, BadRunId> {
        RunId::parse(&text)
    }
}

impl TryFrom<String> for StepId {
    type Error = BadStepId;

    fn try_from(text: String) -> Result<StepId, BadStepId> {
        StepId::parse(&text)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{BadRunId, RunId, StepId};

    #[test]
    fn a_run_id_keeps_every_random_bit_and_parses() {
        let zero = RunId::from_random([0; 15]);
        assert_eq!(zero.as_str(), "run_000000000000000000000000");
        let full = RunId::from_random([255; 15]);
        assert_eq!(full.as_str(), "run_zzzzzzzzzzzzzzzzzzzzzzzz");
        for bit in 0..120 {
            let mut bytes = [0; 15];
            bytes[bit / 8] = 1 << (bit % 8);
            let id = RunId::from_random(bytes);
            assert_ne!(id, zero);
            assert_eq!(RunId::parse(id.as_str()), Ok(id));
        }
    }

    #[test]
    fn what_is_no_run_id_is_refused() {
        let digits = "0123456789abcdefghjkmnpq";
        assert!(RunId::parse(&format!("run_{digits}")).is_ok());
        for bad in
            ["", "run_", digits, "run_0123456789abcdefghjkmnp", "RUN_0123456789abcdefghjkmnpq"]
        {
            assert_eq!(RunId::parse(bad), Err(BadRunId), "{bad:?}");
        }
        for bad in ['A', 'i', 'l', 'o', 'u', '/', '.', 'ä'] {
            let text = format!("run_{}{bad}", &digits[1..]);
            assert_eq!(RunId::parse(&text), Err(BadRunId), "{text:?}");
        }
        assert!(serde_json::from_str::<RunId>("\"run_x\"").is_err());
    }

    #[track_caller]
    fn check_step(text: &str, accepted: bool) {
        assert_eq!(StepId::parse(text).is_ok(), accepted, "{text:?}");
        let json = serde_json::to_string(text).unwrap();
        assert_eq!(serde_json::from_str::<StepId>(&json).is_ok(), accepted, "{text:?}");
    }

    #[test]
    fn a_step_id_looks_as_in_the_seed() {
        check_step("step_8f3", true);
        check_step("step_toolu_01A-b", true);
        check_step(StepId::from_number(u64::MAX).as_str(), true);
        check_step(&format!("step_{}", "a".repeat(64)), true);
        check_step(&format!("step_{}", "a".repeat(65)), false);
        for bad in ["", "step", "step_", "8f3", "Step_1", "step_a b", "step_ä", "step_a\n"] {
            check_step(bad, false);
        }
    }
}
