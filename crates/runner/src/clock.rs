//! The time of events.

use chrono::Utc;

/// Unix milliseconds.
pub(crate) fn now() -> u64 {
    u64::try_from(Utc::now().timestamp_millis()).unwrap_or(0)
}
