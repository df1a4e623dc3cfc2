//! Times for rows.

use chrono::{DateTime, TimeDelta, Utc};

/// A time some seconds after a fixed one.
pub(crate) fn second(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(1_800_000_000 + seconds)
}
