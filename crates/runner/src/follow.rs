//! Following a log: what is in it from a place on, then what comes, in one
//! projection. Stops when the client hangs up; that means nothing to the run,
//! unless the follower holds the caller's line.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{sync::watch, time::Instant};
use wire::{
    agui::Position,
    run::{ErrorCode, Event, RunEvent, to_raw},
};

use crate::{
    clock,
    log::{LOG_FILE, Life, Progress},
    projection::{Projection, Projector},
    run::CallersLine,
};

/// Most bytes that are read at once.
const READ: usize = 64 << 10;
/// Longest silence of a stream whose format has something to say in it.
const SILENCE: Duration = Duration::from_secs(15);

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
    /// What is up to here is read and not sent.
    after: Position,
    /// What is said in silence, and when the silence has lasted too long.
    keep_alive: Option<&'static str>,
    silent_until: Instant,
    broken_told: bool,
    callers_line: Option<CallersLine>,
}

impl Follower {
    /// Follows the log in `directory` behind `after`.
    pub(crate) fn open(
        directory: &Path,
        progress: watch::Receiver<Progress>,
        projection: Projection,
        after: Position,
    ) -> io::Result<Follower> {
        Ok(Follower {
            file: Arc::new(File::open(directory.join(LOG_FILE))?),
            position: 0,
            rest: Vec::new(),
            progress,
            projector: Projector::new(projection),
            seq: 0,
            after,
            keep_alive: projection.keep_alive(),
            silent_until: Instant::now() + SILENCE,
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
        let next = self.wait().await;
        self.silent_until = Instant::now() + SILENCE;
        next
    }

    async fn wait(&mut self) -> Option<io::Result<Bytes>> {
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
            let changed = match self.keep_alive {
                None => self.progress.changed().await,
                Some(comment) => {
                    let changed = self.progress.changed();
                    match tokio::time::timeout_at(self.silent_until, changed).await {
                        Ok(changed) => changed,
                        Err(_) => return Some(Ok(Bytes::from_static(comment.as_bytes()))),
                    }
                }
            };
            if changed.is_err() {
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
        self.projector.project(self.seq, line, self.after, out);
    }

    /// A log that could not be written to its end has no terminal event. Nobody
    /// who follows it is left without one.
    fn tell_broken(&mut self) -> Bytes {
        self.broken_told = true;
        let message = "the log of this run was not written to its end".to_owned();
        let event = Event::Error { code: ErrorCode::Internal, message };
        self.seq += 1;
        let entry = RunEvent { seq: self.seq, ts: clock::now(), line: None, event };
        let mut out = Vec::new();
        // Whoever knows it already asks for what is behind it.
        self.projector.project(self.seq, to_raw(&entry).as_bytes(), self.after, &mut out);
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::agui::Position;

    use super::Follower;
    use crate::{
        log::{Life, LogWriter},
        projection::{Encoding, Projection},
    };

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_of_server_sent_events_says_that_it_lives() {
        let place = tempfile::tempdir().unwrap();
        let log = LogWriter::create(&place.path().join("run")).unwrap();
        let follow = |projection| {
            let (directory, start) = (place.path().join("run"), Position::after(0));
            Follower::open(&directory, log.progress(), projection, start).unwrap()
        };
        let mut events = follow(Projection::Agui(Encoding::Sse));
        for _ in 0..2 {
            let quiet = tokio::time::Instant::now();
            let comment = events.next().await.unwrap().unwrap();
            assert_eq!(comment, Bytes::from_static(b": keep-alive\n\n"));
            assert_eq!(quiet.elapsed().as_secs(), 15);
        }
        // Lines have nothing that readers would pass over.
        let mut lines = follow(Projection::Envelope);
        let hour = std::time::Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, lines.next()).await.is_err());
        log.close(Life::Ended);
        assert!(lines.next().await.is_none());
        assert!(events.next().await.is_none());
    }
}
