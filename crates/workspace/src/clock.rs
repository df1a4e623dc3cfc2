//! The time, as the store keeps it.

use chrono::{DateTime, SubsecRound, Utc};

/// Now, in whole milliseconds.
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(3)
}
