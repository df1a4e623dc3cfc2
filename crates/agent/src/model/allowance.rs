//! How much one answer may hold, whatever the provider sends.

use super::error::BadAnswer;

/// Most bytes of text, thought and arguments in one answer.
const ANSWER_BYTES: usize = 8 << 20;
/// Most tool calls in one answer.
pub(super) const CALLS: usize = 128;

/// What is left of the bounds of one answer.
pub(super) struct Allowance {
    bytes: usize,
}

impl Allowance {
    pub(super) fn new() -> Allowance {
        Allowance { bytes: ANSWER_BYTES }
    }

    /// Takes a piece's bytes, if they are left.
    pub(super) fn take(&mut self, piece: &str) -> Result<(), BadAnswer> {
        let left = self.bytes.checked_sub(piece.len());
        self.bytes = left.ok_or(BadAnswer::TooLarge { limit: ANSWER_BYTES })?;
        Ok(())
    }

    /// Says whether one more call may be begun beside those that there are.
    pub(super) fn one_more_call(begun: usize) -> Result<(), BadAnswer> {
        if begun >= CALLS {
            return Err(BadAnswer::TooManyCalls { limit: CALLS });
        }
        Ok(())
    }
}
