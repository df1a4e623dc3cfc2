//! The setup script of the named environment: it runs before the first model
//! call, in the workspace, with the environment's variables.
//!
//! Its two outputs share one pipe, so that their lines keep their order. What
//! it leaves running in the background goes on running, and its output is read
//! and dropped for as long as the agent lives: a daemon must not die of SIGPIPE
//! when somebody's setup is over.

mod lines;

use std::fs::{self, OpenOptions};
use std::io::{self, PipeReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use wire::run::{ErrorCode, Level};

use super::Home;
use crate::emit::Emitter;
use crate::failure::Failure;
use crate::session::Session;
use crate::shell::Shell;

use lines::Lines;

/// How long output is waited for once the script is over and others hold its pipe.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Reads what background processes of the script still say.
pub(crate) struct Background {
    _reader: JoinSet<()>,
}

/// The script on disk, only as long as it runs.
struct ScriptFile(PathBuf);

/// Runs the script to its end.
pub(super) async fn run(
    script: &str,
    session: &Session,
    home: &Home,
    out: &Emitter,
) -> Result<Option<Background>, Failure> {
    let cannot = |err: io::Error| {
        Failure::new(ErrorCode::SetupFailed, format!("cannot run the setup script: {err}"))
    };
    out.log(Level::Info, "running the setup script");
    let file = ScriptFile::write(script, home).map_err(cannot)?;
    let (reader, child) = start(&file.0, session).map_err(cannot)?;
    let mut reader = Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(cannot)?;
    let mut lines = Lines::default();
    let (status, at_end) = follow(child, &mut reader, &mut lines, out).await.map_err(cannot)?;
    lines.finish(|line| out.log(Level::Info, line));
    if !status.success() {
        let message = match lines.tail() {
            tail if tail.is_empty() => format!("the setup script ended with {}", shown(status)),
            tail => format!("the setup script ended with {}:\n{tail}", shown(status)),
        };
        return Err(Failure::new(ErrorCode::SetupFailed, message));
    }
    Ok((!at_end).then(|| Background::reading(reader)))
}

fn start(script: &Path, session: &Session) -> io::Result<(PipeReader, Child)> {
    let (reader, writer) = io::pipe()?;
    let shell = Shell::installed();
    let mut command = session.command(shell.program());
    command.arg("-e");
    match shell {
        Shell::Bash => command.args(["-o", "pipefail"]),
        Shell::Plain => &mut command,
    };
    command.arg(script).stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    Ok((reader, command.spawn()?))
}

/// Passes lines on until the script is over, and says whether its pipe is too.
async fn follow(
    mut child: Child,
    reader: &mut Receiver,
    lines: &mut Lines,
    out: &Emitter,
) -> io::Result<(ExitStatus, bool)> {
    let mut piece = vec![0; 16 << 10];
    let status = loop {
        tokio::select! {
            count = reader.read(&mut piece) => match count? {
                0 => return Ok((child.wait().await?, true)),
                count => lines.push(&piece[..count], |line| out.log(Level::Info, line)),
            },
            status = child.wait() => break status?,
        }
    };
    let deadline = Instant::now() + LAST_WORDS;
    while let Ok(count) = timeout_at(deadline, reader.read(&mut piece)).await {
        match count? {
            0 => return Ok((status, true)),
            count => lines.push(&piece[..count], |line| out.log(Level::Info, line)),
        }
    }
    Ok((status, false))
}

impl Background {
    fn reading(mut reader: Receiver) -> Background {
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut piece = vec![0; 16 << 10];
            while reader.read(&mut piece).await.is_ok_and(|count| count > 0) {}
        });
        Background { _reader: tasks }
    }
}

impl ScriptFile {
    fn write(script: &str, home: &Home) -> io::Result<ScriptFile> {
        let name = format!("{}.sh", std::process::id());
        let file = ScriptFile(home.directory("setup")?.join(name));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&file.0)?
            .write_all(script.as_bytes())?;
        Ok(file)
    }
}

impl Drop for ScriptFile {
    fn drop(&mut self) {
        // It may hold secrets; when it is gone already, so much the better.
        let _ = fs::remove_file(&self.0);
    }
}

fn shown(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
