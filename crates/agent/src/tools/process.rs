//! Runs one command to its end, for the shell and for recipes.
//!
//! The command has a process group of its own. At the time limit, or when
//! nobody waits any more, the whole group is killed. What a command leaves in
//! the background on purpose lives on, but its output is no longer read.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, Command},
    time::{Instant, timeout_at},
};

use super::{Extent, Returned, ToolError, capture::Capture};

/// How long output is awaited after a command has exited: what it wrote is in
/// the pipe by then, and who else holds the pipe may hold it for ever.
const LINGER: Duration = Duration::from_millis(100);

/// How a command ended.
pub(super) struct Ended {
    /// `None` when the time limit ended it.
    status: Option<ExitStatus>,
    pub(super) stdout: String,
    stderr: String,
    extent: Extent,
    limit: Duration,
}

/// Kills the group of a command that has not been waited for.
struct Group(Option<Pid>);

/// Runs a command with this on its standard input. Of each of its two outputs
/// at most half of `bytes` is kept.
pub(super) async fn run(
    mut command: Command,
    input: &[u8],
    bytes: u64,
    limit: Duration,
) -> Result<Ended, io::Error> {
    let piped = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(piped).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let mut group = Group(pid);
    let half = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
    let mut stdout = Capture::new(half);
    let mut stderr = Capture::new(half);
    let deadline = Instant::now() + limit;
    let status = {
        let (out, err, sink) = (child.stdout.take(), child.stderr.take(), child.stdin.take());
        let reading = async {
            tokio::join!(drain(out, &mut stdout), drain(err, &mut stderr), feed(sink, input))
        };
        tokio::pin!(reading);
        let waiting = async {
            tokio::select! {
                status = child.wait() => {
                    // What is left to read comes at once or from somebody else.
                    let _ = tokio::time::timeout(LINGER, &mut reading).await;
                    status
                }
                _ = &mut reading => child.wait().await,
            }
        };
        match timeout_at(deadline, waiting).await {
            Ok(status) => Some(status?),
            Err(_) => None,
        }
    };
    match status {
        Some(_) => group.0 = None,
        None => {
            drop(group);
            // Dead by now, or as good as: it must not stay a zombie.
            child.wait().await?;
        }
    }
    let (stdout, first) = stdout.finish();
    let (stderr, second) = stderr.finish();
    let extent = if first == second { first } else { Extent::Cut };
    Ok(Ended { status, stdout, stderr, extent, limit })
}

async fn drain(source: Option<impl AsyncRead + Unpin>, into: &mut Capture) {
    let Some(mut source) = source else { return };
    let mut piece = vec![0; 16 << 10];
    // A pipe that breaks has ended.
    while let Ok(length) = source.read(&mut piece).await {
        if length == 0 {
            return;
        }
        into.push(&piece[..length]);
    }
}

async fn feed(sink: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut sink) = sink {
        // A command need not read what it is given.
        let _ = sink.write_all(input).await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It may have ended by itself a moment ago.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Ended {
    /// The result of a command: exit status 0 is success, anything else is a
    /// failure that keeps its output.
    pub(super) fn returned(self) -> Result<Returned, ToolError> {
        let code = self.status.map(|status| {
            // As shells count: a signal is 128 and its number.
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
        });
        let mut result = Map::new();
        result.insert("exit_code".to_owned(), json!(code));
        result.insert("stdout".to_owned(), json!(self.stdout));
        result.insert("stderr".to_owned(), json!(self.stderr));
        let message = match self.status {
            None => {
                result.insert("timed_out".to_owned(), json!(true));
                format!("timed out after {} ms", self.limit.as_millis())
            }
            Some(status) if status.success() => {
                return Ok(Returned { value: Value::Object(result), extent: self.extent });
            }
            Some(status) => match status.signal() {
                Some(signal) => format!("killed by signal {signal}"),
                None => format!("exit status {}", code.unwrap_or_default()),
            },
        };
        Err(ToolError { message, result: Some(Value::Object(result)) })
    }

    pub(super) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    pub(super) fn extent(&self) -> Extent {
        self.extent
    }
}
