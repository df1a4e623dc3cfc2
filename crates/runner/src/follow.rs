//! Following a log: what is in it from a number on, then what comes, in one
//! projection. Stops when the client hangs up; that means nothing to the run,
//! unless the follower holds the caller's line.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, sync::Arc};

use bytes::Bytes;
use tokio::sync::watch;
use wire::run::{ErrorCode, Event, RunEvent, to_raw};

use crate::{
    clock,
    log::{LOG_FILE, Life, Progress},
    projection::{Projection, Projector, Sent},
    run::CallersLine,
};

/// Most bytes that are read at once.
const READ: usize = 64 << 10;

/// A reader of one log.
pub(crate) struct Follower {
    file: Arc<File>,
    position: u64,
    /// The beginning of a line whose end has not been read.
    rest: Vec<u8>,
    progress: watch::Receiver<Progress>,
    projector: Projector,
    /// The number of the last entry that was read.
    seq: u64,
    /// Entries up to this one are read and not sent.
    after: u64,
    broken_told: bool,
    callers_line: Option<CallersLine>,
}

impl Follower {
    /// Follows the log in `directory` behind entry `after`.
    pub(crate) fn open(
        directory: &Path,
        progress: watch::Receiver<Progress>,
        projection: Projection,
        after: u64,
    ) -> io::Result<Follower> {
        Ok(Follower {
            file: Arc::new(File::open(directory.join(LOG_FILE))?),
            position: 0,
            rest: Vec::new(),
            progress,
            projector: Projector::new(projection),
            seq: 0,
            after,
            broken_told: false,
            callers_line: None,
        })
    }

    /// This one is the caller's: when it is dropped, the caller has hung up.
    pub(crate) fn for_caller(mut self, line: CallersLine) -> Follower {
        self.callers_line = Some(line);
        self
    }

    /// The lines of everything that is there; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let progress = *self.progress.borrow_and_update();
            if self.position < progress.length {
                let lines = match self.read(progress.length).await {
                    Ok(lines) => lines,
                    Err(err) => return Some(Err(err)),
                };
                if lines.is_empty() {
                    continue;
                }
                return Some(Ok(lines.into()));
            }
            match progress.life {
                Life::Ended => return None,
                Life::Broken if self.broken_told => return None,
                Life::Broken => return Some(Ok(self.tell_broken())),
                // A broken stream, not an end: the run has none yet.
                Life::Left => return Some(Err(io::Error::other("the server stops"))),
                Life::Going => {}
            }
            if self.progress.changed().await.is_err() {
                // The writer is gone without a word, as only a panic makes it.
                return Some(Err(io::Error::other("the run is not watched any more")));
            }
        }
    }

    async fn read(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let wanted = usize::try_from(length - self.position).unwrap_or(READ).min(READ);
        let (file, position) = (Arc::clone(&self.file), self.position);
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; wanted];
            file.read_exact_at(&mut bytes, position).map(|()| bytes)
        });
        let bytes = reading.await.map_err(io::Error::other)??;
        self.position += bytes.len() as u64;
        let mut out = Vec::new();
        let mut bytes = &bytes[..];
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let (line, behind) = bytes.split_at(at + 1);
            bytes = behind;
            if self.rest.is_empty() {
                self.line(line, &mut out);
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                self.line(&whole, &mut out);
            }
        }
        self.rest.extend_from_slice(bytes);
        Ok(out)
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        // Entries are numbered from 1 without gaps, so counting them is enough.
        self.seq += 1;
        let sent = if self.seq > self.after { Sent::Yes } else { Sent::No };
        self.projector.project(line, sent, out);
    }

    /// A log that could not be written to its end has no terminal event. Nobody
    /// who follows it is left without one.
    fn tell_broken(&mut self) -> Bytes {
        self.broken_told = true;
        let message = "the log of this run was not written to its end".to_owned();
        let event = Event::Error { code: ErrorCode::Internal, message };
        let entry = RunEvent { seq: self.seq + 1, ts: clock::now(), line: None, event };
        let mut out = Vec::new();
        self.projector.project(to_raw(&entry).as_bytes(), Sent::Yes, &mut out);
        out.into()
    }
}
