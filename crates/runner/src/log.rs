//! A run's log on disk: one line an entry, written before anybody hears of it.
//!
//! ```text
//! driver ── append ──► <runs>/<run>/stream.jsonl ◄── read ── followers, each at its own pace
//!           └── progress (length, number, life) ──► followers wake up
//! ```
//!
//! The file is the buffer, so a reader that stops costs nobody anything. One
//! task writes; a line that a crash cut in half is taken off before the next
//! writer begins.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead, BufReader},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use tokio::{io::AsyncWriteExt, sync::watch};
use wire::run::{ErrorCode, Event, Ledger, RunEvent, RunId, StepId, to_raw};

use crate::link::call_number;

/// A log of that many bytes is full: an agent that never stops talking must not
/// fill the host's disk. What was said at once, and the end, may go past it.
pub(crate) const LOG_LIMIT: u64 = 256 << 20;
/// The log's name in its run's directory.
pub(crate) const LOG_FILE: &str = "stream.jsonl";

/// How far a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes that may be read.
    pub(crate) length: u64,
    /// The number of the last entry in them.
    pub(crate) seq: u64,
    pub(crate) life: Life,
}

/// Whether more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// More will come.
    Going,
    /// This server stops; the next one goes on.
    Left,
    /// Nothing will come, and nothing of the run is left but its log.
    Ended,
    /// The same, and the log has no end: it could not be written.
    Broken,
}

/// The log cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("the log cannot be written")]
    Write(#[from] io::Error),
    #[error("the log is damaged")]
    Damaged(#[from] wire::run::BadLog),
}

/// The one that writes.
#[derive(Debug)]
pub(crate) struct LogWriter {
    path: PathBuf,
    file: tokio::fs::File,
    progress: watch::Sender<Progress>,
    lines: Vec<u8>,
}

impl LogWriter {
    /// Begins an empty log in `directory`, which is made for it.
    pub(crate) fn create(directory: &Path) -> io::Result<LogWriter> {
        DirBuilder::new().mode(0o700).create(directory)?;
        let path = directory.join(LOG_FILE);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        Ok(LogWriter::new(path, file, 0, 0))
    }

    /// Goes on with the log in `directory`, and says what is in it.
    pub(crate) fn resume(directory: &Path) -> Result<(LogWriter, Former), LogError> {
        let path = directory.join(LOG_FILE);
        let (former, length) = Former::read(&path)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        file.set_len(length)?;
        let writer = LogWriter::new(path, file, length, former.ledger.last_seq());
        Ok((writer, former))
    }

    fn new(path: PathBuf, file: File, length: u64, seq: u64) -> LogWriter {
        let progress = watch::Sender::new(Progress { length, seq, life: Life::Going });
        LogWriter { path, file: tokio::fs::File::from_std(file), progress, lines: Vec::new() }
    }

    /// For followers.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Whether the agent has said more than anybody may.
    pub(crate) fn is_full(&self) -> bool {
        self.progress.borrow().length >= LOG_LIMIT
    }

    /// Writes entries, then tells the followers. After an error the writer is of
    /// no use until it is rewound.
    pub(crate) async fn append(&mut self, entries: &[RunEvent]) -> Result<(), LogError> {
        let Some(last) = entries.last() else { return Ok(()) };
        self.lines.clear();
        for entry in entries {
            self.lines.extend_from_slice(to_raw(entry).as_bytes());
        }
        let length = self.progress.borrow().length + self.lines.len() as u64;
        self.file.write_all(&self.lines).await?;
        // The bytes have to be in the file before anybody looks for them there.
        self.file.flush().await?;
        self.lines.shrink_to(64 << 10);
        let seq = last.seq;
        self.progress.send_modify(|progress| (progress.length, progress.seq) = (length, seq));
        Ok(())
    }

    /// Goes back to the last whole entry, and says what is in the log up to there.
    pub(crate) async fn rewind(&mut self) -> Result<Former, LogError> {
        let (former, length) = Former::read(&self.path)?;
        self.file.set_len(length).await?;
        // Whole lines of what failed stay, and count.
        let seq = former.ledger.last_seq();
        self.progress.send_modify(|progress| (progress.length, progress.seq) = (length, seq));
        Ok(former)
    }

    /// Makes sure that the log outlives the machine's next crash.
    pub(crate) async fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all().await
    }

    /// Tells the followers that there will be no more from this writer.
    pub(crate) fn close(self, life: Life) {
        self.progress.send_modify(|progress| progress.life = life);
    }
}

/// What a log says that was written before.
#[derive(Debug, Default)]
pub(crate) struct Former {
    pub(crate) ledger: Ledger,
    /// The last line of the agent that is in it.
    pub(crate) agent_line: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Tokens of all kinds, cached ones too: what counts against a budget.
    pub(crate) spent: u64,
    /// The number of the last call of a tool that the host booked.
    pub(crate) tool_calls: u64,
    /// Those of them that have not ended, with the time they began.
    pub(crate) open_calls: Vec<(StepId, u64)>,
    /// The code of the error that ended it.
    pub(crate) code: Option<ErrorCode>,
}

impl Former {
    /// Reads a log, and says how long it is without a torn end.
    fn read(path: &Path) -> Result<(Former, u64), LogError> {
        let mut former = Former::default();
        let mut entries = Entries::open(path)?;
        let mut failed = Ok(());
        let log = std::iter::from_fn(|| match entries.next() {
            Ok(entry) => entry,
            Err(err) => {
                failed = Err(err);
                None
            }
        });
        let ledger = Ledger::replay(log.inspect(|entry| {
            former.agent_line = former.agent_line.max(entry.line.unwrap_or(0));
            if let Event::Usage {
                input_tokens,
                output_tokens,
                cache_read_tokens,
                cache_write_tokens,
            } = &entry.event
            {
                let add = |sum: &mut u64, tokens: &u64| *sum = sum.saturating_add(*tokens);
                add(&mut former.input_tokens, input_tokens);
                add(&mut former.output_tokens, output_tokens);
                for kind in [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] {
                    add(&mut former.spent, kind);
                }
            }
            former.note_call(entry);
            if let Event::Error { code, .. } = &entry.event {
                former.code = Some(*code);
            }
        }));
        former.ledger = ledger?;
        failed?;
        Ok((former, entries.length))
    }
}

impl Former {
    fn note_call(&mut self, entry: &RunEvent) {
        if let Event::StepStarted { id, .. } = &entry.event
            && let Some(number) = call_number(id)
        {
            self.tool_calls = self.tool_calls.max(number);
            self.open_calls.push((id.clone(), entry.ts));
        }
        if let Event::StepEnded { id, .. } = &entry.event {
            self.open_calls.retain(|(open, _)| open != id);
        }
    }
}

/// The entries of a log, one after the other. It ends at the first line that is
/// not whole, which only the last one can be.
pub(crate) struct Entries {
    reader: BufReader<File>,
    line: Vec<u8>,
    /// Bytes of the entries so far.
    length: u64,
}

impl Entries {
    pub(crate) fn open(path: &Path) -> io::Result<Entries> {
        let reader = BufReader::with_capacity(64 << 10, File::open(path)?);
        Ok(Entries { reader, line: Vec::new(), length: 0 })
    }

    /// The next entry, or the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<RunEvent>> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        if self.line.last() != Some(&b'\n') {
            return Ok(None);
        }
        match RunEvent::parse_line(&self.line) {
            Ok(entry) => {
                self.length += self.line.len() as u64;
                Ok(Some(entry))
            }
            Err(_) => Ok(None),
        }
    }
}

/// Where a run's files are.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    directory: PathBuf,
}

impl Shelf {
    /// Uses `directory`, which is made when missing, for our eyes only.
    pub(crate) fn open(directory: PathBuf) -> io::Result<Shelf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Shelf { directory })
    }

    /// Where all of them are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of one run. An id is safe in a path.
    pub(crate) fn of(&self, id: &RunId) -> PathBuf {
        self.directory.join(id.as_str())
    }

    /// The runs of which something is kept.
    pub(crate) fn ids(&self) -> Vec<RunId> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| RunId::parse(&name).ok()).collect()
    }

    /// Removes what is kept of a run. One of which nothing is kept is no error.
    pub(crate) fn remove(&self, id: &RunId) -> io::Result<()> {
        match fs::remove_dir_all(self.of(id)) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
