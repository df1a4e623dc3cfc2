//! The last lines that a sandbox's commands wrote.

use std::{collections::VecDeque, sync::Mutex};

use chrono::{DateTime, Utc};
use wire::Stream;

/// Lines kept.
const LINES: usize = 1024;
/// Bytes kept; long lines push out more than one short one.
const BYTES: usize = 1 << 20;

/// One line, without its newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// When the server read it.
    pub at: DateTime<Utc>,
    /// Who wrote it.
    pub pid: u32,
    /// To which pipe.
    pub stream: Stream,
    /// What.
    pub text: String,
}

/// A ring of lines: the oldest go first.
#[derive(Debug, Default)]
pub struct Log {
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<LogRecord>,
    bytes: usize,
    truncated: bool,
}

impl Log {
    /// Adds the lines of `text`.
    pub(crate) fn append(&self, at: DateTime<Utc>, pid: u32, stream: Stream, text: &str) {
        let Ok(mut ring) = self.ring.lock() else { return };
        for line in text.split_inclusive('\n') {
            let text = line.strip_suffix('\n').unwrap_or(line).to_owned();
            ring.push(LogRecord { at, pid, stream, text });
        }
    }

    /// Notes that lines were lost on the way.
    pub(crate) fn mark_truncated(&self) {
        if let Ok(mut ring) = self.ring.lock() {
            ring.truncated = true;
        }
    }

    /// The last `limit` lines from `since` on, oldest first, and whether any
    /// line was ever lost.
    pub fn tail(&self, since: Option<DateTime<Utc>>, limit: usize) -> (Vec<LogRecord>, bool) {
        let Ok(ring) = self.ring.lock() else { return (Vec::new(), true) };
        let recent = |record: &&LogRecord| since.is_none_or(|since| record.at >= since);
        let mut lines: Vec<_> =
            ring.records.iter().rev().take_while(recent).take(limit).cloned().collect();
        lines.reverse();
        (lines, ring.truncated)
    }
}

impl Ring {
    fn push(&mut self, record: LogRecord) {
        self.bytes += record.text.len();
        self.records.push_back(record);
        while self.records.len() > LINES || self.bytes > BYTES {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.text.len();
            self.truncated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use wire::Stream;

    use super::{BYTES, Log};

    fn append(log: &Log, text: &str) {
        log.append(DateTime::<Utc>::UNIX_EPOCH, 1, Stream::Stdout, text);
    }

    #[test]
    fn the_oldest_lines_go_first_and_the_loss_is_said() {
        let log = Log::default();
        append(&log, &"x\n".repeat(1023));
        append(&log, "last\n");
        assert_eq!((log.tail(None, 5000).0.len(), log.tail(None, 1).1), (1024, false));
        append(&log, "one more\n");
        let (lines, truncated) = log.tail(None, 2);
        assert!(truncated);
        assert_eq!([&lines[0].text, &lines[1].text], ["last", "one more"]);
    }

    #[test]
    fn long_lines_are_bounded_by_bytes() {
        let log = Log::default();
        for _ in 0..5 {
            append(&log, &"y".repeat(BYTES / 2));
        }
        assert_eq!(log.tail(None, 5000).0.len(), 2);
    }
}
