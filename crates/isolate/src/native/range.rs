//! Ids for sandboxes: each has 65,536 of the host's that nobody else has.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex},
};

use super::{
    spec::{Privilege, Spec},
    users::COUNT,
};
use crate::Error;

/// First of the host's ids that sandboxes get: past what distributions give to
/// users, services and other container engines.
const FIRST_ID: u32 = 0x6000_0000;
/// How many sandboxes can have ids of their own at once.
const RANGES: u32 = 8192;

/// Ranges that are free. Cheap to clone.
#[derive(Clone)]
pub(super) struct Ranges(Arc<Mutex<Vec<u32>>>);

impl Ranges {
    /// All ranges, beginning anywhere: another server on this host, with another
    /// data directory, knows nothing of ours.
    pub(super) fn shuffled() -> Ranges {
        let anywhere = RandomState::new().build_hasher().finish() % u64::from(RANGES);
        let mut ranges: Vec<u32> = (0..RANGES).collect();
        ranges.rotate_left(anywhere as usize);
        Ranges(Arc::new(Mutex::new(ranges)))
    }

    /// One that nobody has.
    pub(super) fn take(&self) -> Result<Range, Error> {
        let number = self.0.lock().ok().and_then(|mut free| free.pop());
        Ok(Range { number: number.ok_or(Error::NoIds)?, free: self.clone() })
    }

    /// The range of a sandbox that already has it.
    pub(super) fn reserve(&self, spec: &Spec) -> Option<Range> {
        match spec.privilege {
            Privilege::Root => {}
            Privilege::User => return None,
        }
        let number = spec.first_id.checked_sub(FIRST_ID)? / COUNT;
        self.0.lock().ok()?.retain(|one| *one != number);
        Some(Range { number, free: self.clone() })
    }
}

/// 65,536 ids, given back when dropped.
pub(super) struct Range {
    pub(super) number: u32,
    free: Ranges,
}

impl Range {
    /// The first of them.
    pub(super) fn first_id(&self) -> u32 {
        FIRST_ID + self.number * COUNT
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Ok(mut free) = self.free.0.lock() {
            // To the far end: ids rest before they are used again.
            free.insert(0, self.number);
        }
    }
}
