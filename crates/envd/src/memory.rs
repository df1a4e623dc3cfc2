//! Tells commands that were killed because memory ran out from others that
//! were killed.
//!
//! The kernel counts such kills for all commands together and does not say whom
//! it killed. So each of them is claimed once, by a command that was killed and
//! was running when the count rose.

use std::{cell::Cell, os::fd::OwnedFd};

use rustix::io::pread;

/// More than the file has: a few short lines.
const LENGTH: usize = 4096;

/// The kills of this sandbox.
pub(crate) struct MemoryKills {
    /// `memory.events` or `memory.oom_control` of the commands' group, where
    /// the host gave it to us.
    counter: Option<OwnedFd>,
    /// Everything up to here is some command's end already.
    claimed: Cell<u64>,
}

impl MemoryKills {
    pub(crate) fn new(counter: Option<OwnedFd>) -> MemoryKills {
        MemoryKills { counter, claimed: Cell::new(0) }
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        let Some(counter) = &self.counter else { return 0 };
        let mut text = [0; LENGTH];
        let length = pread(counter, &mut text, 0).unwrap_or(0);
        parse(&text[..length])
    }

    /// Whether one of them is the end of a command that was killed, and that
    /// began when there were `before`.
    pub(crate) fn claim(&self, before: u64) -> bool {
        self.claim_of(self.count(), before)
    }

    fn claim_of(&self, count: u64, before: u64) -> bool {
        let known = self.claimed.get().max(before);
        let is_new = count > known;
        if is_new {
            self.claimed.set(known + 1);
        }
        is_new
    }
}

fn parse(text: &[u8]) -> u64 {
    let mut lines = text.split(|byte| *byte == b'\n');
    let count = lines.find_map(|line| line.strip_prefix(b"oom_kill "));
    count.and_then(|count| str::from_utf8(count).ok()?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{MemoryKills, parse};

    #[test]
    fn both_layouts_are_read() {
        assert_eq!(parse(b"low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n"), 1);
        assert_eq!(parse(b"oom_kill_disable 0\nunder_oom 0\noom_kill 12\n"), 12);
        assert_eq!(parse(b""), 0);
    }

    #[test]
    fn each_kill_is_one_commands_end() {
        let kills = MemoryKills::new(None);
        // Two that ran together, and a third that something else killed.
        assert!(kills.claim_of(2, 0));
        assert!(kills.claim_of(2, 0));
        assert!(!kills.claim_of(2, 0));
        // A kill that no command's end was is not the end of one that began later.
        assert!(!kills.claim_of(3, 3));
        assert!(kills.claim_of(4, 3));
    }
}
