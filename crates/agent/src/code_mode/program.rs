//! A program that runs: what it says and prints comes out in pieces of bounded
//! size, and no process is left when it is over.
//!
//! ```text
//! agent ── answers ──► 3 ┐                 ┌ 4 ── messages ──► agent
//!                        ├ node or python3 ┤
//!            nothing ──► 0 ┘               └ 1, 2 ── what is printed ──► agent
//! ```
//!
//! A shell puts the descriptors into their places, so that the standard outputs
//! stay the program's own, and whatever it starts may print to them.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep_until, timeout};

use super::Language;
use super::lines::{Line, Lines};
use crate::descendants::{Family, Strays};
use crate::session::Session;

/// Longest message of a program; arguments and results travel in them.
pub(super) const MESSAGE_BYTES: usize = 4 << 20;
/// Longest line that is printed.
const PRINTED_BYTES: usize = 64 << 10;
/// Memory that a program may take up: more, and it fails by itself. Walls are
/// around the sandbox; this leaves room for us in it.
pub(super) const MEMORY_BYTES: u64 = 512 << 20;
/// How long a program that has returned may take to end.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is awaited after the program has exited.
const LINGER: Duration = Duration::from_millis(200);

/// Of all that run, it is the program that is killed when memory is short.
const LAUNCH: &str = "echo 900 2>/dev/null >/proc/self/oom_score_adj; \
                      exec \"$@\" 3<&0 4>&1 </dev/null >&2";

/// A program with its pipes. Dropped, it is killed with all that it started.
pub(super) struct Program {
    process: Child,
    family: Family,
    messages: Lines<ChildStdout>,
    printed: Lines<ChildStderr>,
    open: Open,
    /// Set once it has exited.
    exited: Option<(ExitStatus, Instant)>,
}

/// Which outputs have not ended.
struct Open {
    messages: bool,
    printed: bool,
}

/// What a program did.
#[derive(Debug)]
pub(super) enum Said {
    /// It sent a message.
    Message(Line),
    /// It, or something that it started, printed a line.
    Printed(Line),
    /// It exited.
    Exited(ExitStatus),
}

impl Program {
    /// Starts an interpreter, which waits to be told what to run.
    pub(super) fn start(
        session: &Session,
        language: Language,
    ) -> io::Result<(Program, ChildStdin)> {
        let mut command = session.command("/bin/sh");
        command.args(["-c", LAUNCH, "program"]).args(language.command());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mark = Family::mark(&mut command);
        let mut process = command.spawn()?;
        let family = Family::of(process.id(), mark, Strays::Unknown);
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let stdin = process.stdin.take().ok_or_else(gone)?;
        let messages = Lines::new(process.stdout.take().ok_or_else(gone)?, MESSAGE_BYTES);
        let printed = Lines::new(process.stderr.take().ok_or_else(gone)?, PRINTED_BYTES);
        let open = Open { messages: true, printed: true };
        Ok((Program { process, family, messages, printed, open, exited: None }, stdin))
    }

    /// What it does next. A caller that stops waiting loses nothing.
    pub(super) async fn next(&mut self) -> Said {
        loop {
            if let Some((status, _)) = self.exited
                && !self.open.messages
                && !self.open.printed
            {
                return Said::Exited(status);
            }
            let last_words = self.exited.map(|(_, until)| until);
            tokio::select! {
                line = self.messages.next(), if self.open.messages => match line {
                    Some(line) => return Said::Message(line),
                    None => self.open.messages = false,
                },
                line = self.printed.next(), if self.open.printed => match line {
                    Some(line) => return Said::Printed(line),
                    None => self.open.printed = false,
                },
                status = self.process.wait(), if last_words.is_none() => {
                    // It is our child, and nobody else waits for it.
                    let status = status.unwrap_or_default();
                    self.exited = Some((status, Instant::now() + LINGER));
                }
                () = sleep_until(last_words.unwrap_or_else(Instant::now)), if last_words.is_some() => {
                    // Who else holds its pipes may hold them for ever.
                    self.open = Open { messages: false, printed: false };
                }
            }
        }
    }

    /// Lets a program that has returned end by itself, and ends what is left.
    /// What is printed until then is heard; messages are not.
    pub(super) async fn end(mut self, printed: impl Fn(Line)) {
        let ending = async {
            loop {
                match self.next().await {
                    Said::Message(_) => {}
                    Said::Printed(line) => printed(line),
                    Said::Exited(_) => return,
                }
            }
        };
        let _ = timeout(GRACE, ending).await;
        self.kill().await;
    }

    /// Ends it with all that it started.
    pub(super) async fn kill(mut self) {
        self.family.kill();
        // Dead by now, or as good as: it must not stay a zombie.
        let _ = timeout(GRACE, self.process.wait()).await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.family.kill();
    }
}
