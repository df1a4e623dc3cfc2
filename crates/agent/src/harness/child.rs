//! A CLI that runs: lines in, lines out, and no process left when it is over.
//!
//! Tools of CLIs are sessions of their own and outlive most CLIs, so that a
//! process group does not hold them. They are found below the CLI, or as
//! orphans that came to us: see `descendants`.

use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{self, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use wire::run::ErrorCode;

use crate::descendants::{Family, Strays};
use crate::failure::Failure;

/// Longest line that is read; a longer one is skipped.
const LINE_BYTES: usize = 8 << 20;
/// How long a CLI may take to end once its input is closed.
const GRACE: Duration = Duration::from_secs(10);
/// How long output is awaited after the CLI has exited: what it wrote is in the
/// pipe by then, and who else holds the pipe may hold it for ever.
const LINGER: Duration = Duration::from_millis(200);
/// Letters of the standard error that are kept, the last ones.
const STDERR_LETTERS: usize = 1000;

/// A CLI with its three pipes. Dropped, it is killed with all that it started.
pub(crate) struct Child {
    process: process::Child,
    family: Family,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// What was read and not given out yet.
    pending: Vec<u8>,
    /// Up to here there is no end of a line in it.
    searched: usize,
    /// Whether the line that is being read is too long.
    skipping: bool,
    /// Set once the CLI has exited.
    last_words: Option<Instant>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinSet<()>,
}

/// How a CLI ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None if it had to be killed, or if nobody knows.
    pub(crate) status: Option<ExitStatus>,
    /// The end of what it said on its standard error.
    pub(crate) stderr_tail: String,
}

impl Child {
    /// Starts a CLI with all its outputs piped to us.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Child> {
        let mark = Family::mark(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut process = command.spawn()?;
        let family = Family::of(process.id(), mark, Strays::Ours);
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().ok_or_else(gone)?;
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let mut reader = JoinSet::new();
        if let Some(source) = process.stderr.take() {
            reader.spawn(keep_tail(source, Arc::clone(&stderr)));
        }
        Ok(Child {
            process,
            family,
            stdin,
            stdout,
            pending: Vec::new(),
            searched: 0,
            skipping: false,
            last_words: None,
            stderr,
            reader,
        })
    }

    /// The next line without its end; `None` once there are no more. A caller
    /// that stops waiting loses nothing.
    pub(crate) async fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.read_more().await? == 0 {
                let rest = std::mem::take(&mut self.pending);
                let skipped = std::mem::take(&mut self.skipping);
                self.searched = 0;
                return Ok((!rest.is_empty() && !skipped).then(|| text(&rest)));
            }
        }
    }

    /// Writes one line to the CLI.
    pub(crate) async fn write_line(&mut self, text: &str) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut line = Vec::with_capacity(text.len() + 1);
        line.extend_from_slice(text.as_bytes());
        line.push(b'\n');
        stdin.write_all(&line).await?;
        stdin.flush().await
    }

    /// Tells the CLI that nothing more comes.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes the CLI's input and waits for its end; one that takes too long is
    /// killed. Nothing that it started is left.
    pub(crate) async fn end(mut self) -> Ended {
        self.close_stdin();
        // What it still says is read, so that it does not wait for a reader.
        let ending = async { while matches!(self.line().await, Ok(Some(_))) {} };
        let deadline = Instant::now() + GRACE;
        let _ = timeout_at(deadline, ending).await;
        let waited = timeout_at(deadline, self.process.wait()).await;
        let status = waited.ok().and_then(Result::ok);
        self.family.kill();
        if status.is_none() {
            let _ = timeout(GRACE, self.process.wait()).await;
        }
        // Everybody who could hold the pipe is gone.
        let _ = timeout(LINGER, self.reader.join_next()).await;
        Ended { status, stderr_tail: self.stderr_tail() }
    }

    fn stderr_tail(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = text(&bytes);
        let letters = text.trim().chars().count();
        text.trim().chars().skip(letters.saturating_sub(STDERR_LETTERS)).collect()
    }

    /// A whole line of what was read; too long ones are dropped on the way.
    fn take_line(&mut self) -> Option<String> {
        loop {
            let found = self.pending[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = found.map(|at| at + self.searched) else {
                self.searched = self.pending.len();
                if self.searched > LINE_BYTES {
                    self.skipping = true;
                }
                if self.skipping {
                    self.pending.clear();
                    self.searched = 0;
                }
                return None;
            };
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            self.searched = 0;
            if !std::mem::take(&mut self.skipping) {
                return Some(text(&line[..end]));
            }
        }
    }

    /// Reads a piece; 0 at the end, or when the CLI has exited and whoever holds
    /// its pipe has nothing to say.
    async fn read_more(&mut self) -> io::Result<usize> {
        loop {
            if let Some(deadline) = self.last_words {
                let reading = self.stdout.read_buf(&mut self.pending);
                return timeout_at(deadline, reading).await.unwrap_or(Ok(0));
            }
            tokio::select! {
                biased;
                count = self.stdout.read_buf(&mut self.pending) => return count,
                _ = self.process.wait() => self.last_words = Some(Instant::now() + LINGER),
            }
        }
    }
}

impl Ended {
    /// What a run says whose CLI ended before its turn did.
    pub(crate) fn without_result(&self, program: &str) -> Failure {
        let how = match self.status {
            Some(status) => status.to_string(),
            None => "it had to be killed".to_owned(),
        };
        let said = match self.stderr_tail.as_str() {
            "" => String::new(),
            tail => format!(": {tail}"),
        };
        let message = format!("`{program}` ended without a result ({how}){said}");
        Failure::new(ErrorCode::Internal, message)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.family.kill();
    }
}

/// Reads what a CLI complains of to its end, and keeps the last of it.
async fn keep_tail(mut source: ChildStderr, tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut piece = vec![0; 4 << 10];
    while let Ok(count @ 1..) = source.read(&mut piece).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(&piece[..count]);
        // A letter has at most four bytes.
        let over = tail.len().saturating_sub(4 * STDERR_LETTERS);
        tail.drain(..over);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
