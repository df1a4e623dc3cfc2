//! Where a reader of a stream is: the `id` of a server-sent event, and what
//! comes back as `Last-Event-ID`.
//!
//! One entry of a log becomes several events or none. The last of them bears the
//! entry's number alone, so that readers of other projections mean the same by
//! it; the ones before it add their place, from 1: `7.1`, `7.2`, `7`.

use std::{fmt, str::FromStr};

/// How far a reader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    seq: u64,
    /// Events of the entry that were read; `None` is all of them.
    part: Option<u64>,
}

/// The text is no position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is the number of an entry, as `7`, or a place in it, as `7.2`")]
pub struct BadPosition;

impl Position {
    /// Behind everything that an entry became; 0 is before the first.
    pub fn after(seq: u64) -> Position {
        Position { seq, part: None }
    }

    /// Behind the event at `index` of the `count` that an entry became.
    pub fn within(seq: u64, index: usize, count: usize) -> Position {
        let place = index + 1;
        Position { seq, part: (place < count).then_some(place as u64) }
    }

    /// The last entry of which something was read.
    pub fn seq(self) -> u64 {
        self.seq
    }

    /// How many of the `count` events of the entry `seq` were read. They are
    /// projected all the same, since what follows depends on them.
    pub fn seen(self, seq: u64, count: usize) -> usize {
        match self.part {
            _ if seq < self.seq => count,
            _ if seq > self.seq => 0,
            None => count,
            Some(part) => usize::try_from(part).unwrap_or(count).min(count),
        }
    }
}

impl FromStr for Position {
    type Err = BadPosition;

    fn from_str(text: &str) -> Result<Position, BadPosition> {
        match text.split_once('.') {
            None => Ok(Position { seq: number(text)?, part: None }),
            Some((seq, part)) => Ok(Position { seq: number(seq)?, part: Some(number(part)?) }),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            None => write!(f, "{}", self.seq),
            Some(part) => write!(f, "{}.{part}", self.seq),
        }
    }
}

/// Digits only: the standard parser would take a sign, too.
fn number(text: &str) -> Result<u64, BadPosition> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_err(|_| BadPosition)
    } else {
        Err(BadPosition)
    }
}

#[cfg(test)]
mod tests {
    use super::{BadPosition, Position};

    #[test]
    fn the_last_event_of_an_entry_bears_its_number_alone() {
        let ids: Vec<String> =
            (0..3).map(|index| Position::within(7, index, 3).to_string()).collect();
        assert_eq!(ids, ["7.1", "7.2", "7"]);
        assert_eq!(Position::within(7, 0, 1), Position::after(7));
    }

    #[test]
    fn a_position_says_how_much_of_an_entry_was_read() {
        let middle: Position = "7.2".parse().unwrap();
        assert_eq!(middle.seq(), 7);
        assert_eq!((middle.seen(6, 4), middle.seen(7, 4), middle.seen(8, 4)), (4, 2, 0));
        assert_eq!(middle.seen(7, 1), 1);
        let end: Position = "7".parse().unwrap();
        assert_eq!((end.seen(7, 4), end.seen(8, 4)), (4, 0));
        assert_eq!("0".parse(), Ok(Position::after(0)));
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for bad in ["", ".", "7.", ".2", "+7", "-1", "7.2.3", "7,2", " 7", "99999999999999999999"] {
            assert_eq!(bad.parse::<Position>(), Err(BadPosition), "{bad:?}");
        }
    }
}
