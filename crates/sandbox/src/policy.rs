//! Which change is legal: pure functions, no state.

use chrono::{DateTime, TimeDelta, Utc};

/// How long a sandbox may live, in seconds from some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime(TimeDelta);

/// A number of seconds that is no lifetime.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadTimeout {
    /// Zero or less where a sandbox is about to be made.
    #[error("timeout must be greater than 0 seconds")]
    NotPositive,
    /// Longer than any sandbox may live.
    #[error("timeout must be at most {} seconds", Lifetime::MAX_SECONDS)]
    TooLong,
}

impl Lifetime {
    /// A year. Whoever wants longer wants no deadline, which we do not offer.
    const MAX_SECONDS: i64 = 365 * 24 * 3600;

    /// For a sandbox that is about to be made.
    pub fn for_new(seconds: i64) -> Result<Lifetime, BadTimeout> {
        if seconds <= 0 {
            return Err(BadTimeout::NotPositive);
        }
        Lifetime::for_living(seconds)
    }

    /// For one that lives: zero and less mean "now".
    pub fn for_living(seconds: i64) -> Result<Lifetime, BadTimeout> {
        if seconds > Self::MAX_SECONDS {
            return Err(BadTimeout::TooLong);
        }
        Ok(Lifetime(TimeDelta::seconds(seconds.max(0))))
    }

    /// The deadline that this gives.
    pub(crate) fn from(self, now: DateTime<Utc>) -> DateTime<Utc> {
        now + self.0
    }
}

/// What a client asked of a deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeadlineChange {
    /// `set_timeout`: exactly this, earlier or later.
    Exactly(DateTime<Utc>),
    /// `connect` and `refreshes`: this if it is later.
    AtLeast(DateTime<Utc>),
}

impl DeadlineChange {
    pub(crate) fn apply(self, current: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            DeadlineChange::Exactly(deadline) => deadline,
            DeadlineChange::AtLeast(deadline) => deadline.max(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta, Utc};

    use super::{BadTimeout, DeadlineChange, Lifetime};

    #[test]
    fn a_new_sandbox_needs_a_positive_lifetime_and_a_living_one_may_end_now() {
        assert_eq!(Lifetime::for_new(0), Err(BadTimeout::NotPositive));
        assert_eq!(Lifetime::for_new(-5), Err(BadTimeout::NotPositive));
        assert_eq!(Lifetime::for_new(i64::MAX), Err(BadTimeout::TooLong));
        let now = DateTime::<Utc>::UNIX_EPOCH;
        assert_eq!(Lifetime::for_living(-5).unwrap().from(now), now);
        assert_eq!(Lifetime::for_new(3).unwrap().from(now), now + TimeDelta::seconds(3));
    }

    #[test]
    fn connecting_never_shortens_a_life_and_setting_the_timeout_may() {
        let early = DateTime::<Utc>::UNIX_EPOCH;
        let late = early + TimeDelta::seconds(9);
        assert_eq!(DeadlineChange::AtLeast(early).apply(late), late);
        assert_eq!(DeadlineChange::AtLeast(late).apply(early), late);
        assert_eq!(DeadlineChange::Exactly(early).apply(late), early);
    }
}
