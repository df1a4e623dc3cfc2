//! `git`, with a repository of our own outside of the workspace.
//!
//! The user's repository lends its objects and nothing else: its configuration
//! is not read, so that none of its hooks, filters and programs runs, and its
//! index and objects stay as they are.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

/// How long one command may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The index that differences of single files are made with. What is copied for
/// it is kept apart.
pub(super) const FILES_INDEX: &str = "files-index";
const FILES_OBJECTS: &str = "files-objects";
/// What is kept of an error.
const ERROR_BYTES: usize = 4 << 10;

const CONFIG: &str = "\
[core]
\trepositoryformatversion = 1
\tbare = false
\tfilemode = true
\tsymlinks = true
\tautocrlf = false
\tquotePath = false
\tcompression = 0
\tfsmonitor = false
\tuntrackedCache = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
[gc]
\tauto = 0
[diff]
\tignoreSubmodules = dirty
[extensions]
";

/// Our repository, and the directory it looks at.
#[derive(Clone, Debug)]
pub(super) struct Git {
    pub(super) repository: PathBuf,
    pub(super) work: PathBuf,
}

/// Whose objects a repository borrows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lender<'a> {
    Nobody,
    /// The user's, with this many digits in an id.
    Objects {
        directory: &'a Path,
        id_digits: usize,
    },
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) args: &'a [&'a str],
    /// The index by its name in our repository.
    pub(super) index: &'a str,
    pub(super) input: &'a [u8],
    /// Most bytes of an answer; the rest is left.
    pub(super) most: usize,
}

/// What `git` said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    pub(super) extent: super::cut::Extent,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    #[error("there is no `git` in this sandbox")]
    NotThere,
    #[error("the workspace is gone")]
    NoWork,
    #[error("`git {command}` took longer than {} s", PATIENCE.as_secs())]
    TooLong { command: String },
    #[error("there is too much to compare")]
    TooMuch,
    #[error("`git {command}` failed: {reason}")]
    Failed { command: String, status: Option<i32>, reason: String },
    #[error("cannot keep a baseline: {0}")]
    Keep(#[from] io::Error),
}

impl Git {
    /// Makes the repository anew. `git init` would take a process for it.
    pub(super) fn make(&self, lender: Lender<'_>) -> io::Result<()> {
        match fs::remove_dir_all(&self.repository) {
            Err(err) if err.kind() != ErrorKind::NotFound => return Err(err),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir_all(self.repository.join("objects/info"))?;
        fs::create_dir_all(self.repository.join("refs"))?;
        fs::write(self.repository.join("HEAD"), "ref: refs/heads/main\n")?;
        let mut config = CONFIG.to_owned();
        if let Lender::Objects { directory, id_digits } = lender {
            let alternates = self.repository.join("objects/info/alternates");
            fs::write(alternates, [directory.as_os_str().as_encoded_bytes(), b"\n"].concat())?;
            if id_digits == 64 {
                config.push_str("\tobjectFormat = sha256\n");
            }
        }
        fs::write(self.repository.join("config"), config)
    }

    /// Makes the place for what is copied for single files, anew.
    pub(super) fn make_objects_of_files(&self) -> io::Result<()> {
        let objects = self.repository.join(FILES_OBJECTS);
        match fs::remove_dir_all(&objects) {
            Err(err) if err.kind() != ErrorKind::NotFound => return Err(err),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir_all(objects.join("info"))?;
        fs::write(objects.join("info/alternates"), "../objects\n")
    }

    /// Calls `git` on our repository.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Answer, GitError> {
        self.call_in(&self.work, call).await
    }

    /// Calls `git` on our repository, as if a directory were all of the work.
    pub(super) async fn call_in(&self, work: &Path, call: Call<'_>) -> Result<Answer, GitError> {
        // Otherwise it would seem that there is no program.
        if !work.is_dir() {
            return Err(GitError::NoWork);
        }
        // Left by one that was killed: two never work on an index at a time.
        let _ = fs::remove_file(self.repository.join(format!("{}.lock", call.index)));
        let mut command = self.command(&self.repository, work);
        command.env("GIT_INDEX_FILE", self.repository.join(call.index));
        if call.index == FILES_INDEX {
            command.env("GIT_OBJECT_DIRECTORY", self.repository.join(FILES_OBJECTS));
        }
        run(command, call).await
    }

    /// Calls `git` on the user's repository, to read where it is and no more.
    pub(super) async fn ask_user(
        &self,
        repository: &Path,
        args: &[&str],
    ) -> Result<Answer, GitError> {
        let command = self.command(repository, &self.work);
        run(command, Call { args, index: "", input: b"", most: 64 << 10 }).await
    }

    fn command(&self, repository: &Path, work: &Path) -> Command {
        let mut command = Command::new("git");
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", &self.repository)
            .env("XDG_CONFIG_HOME", &self.repository)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_LITERAL_PATHSPECS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_DIR", repository)
            .env("GIT_WORK_TREE", work)
            .current_dir(work)
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

async fn run(mut command: Command, call: Call<'_>) -> Result<Answer, GitError> {
    let name = call.args.iter().find(|arg| !arg.starts_with('-')).copied().unwrap_or_default();
    command.args(call.args);
    let input = if call.input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|err| {
        let not_found = err.kind() == ErrorKind::NotFound;
        if not_found { GitError::NotThere } else { GitError::Keep(err) }
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let working = async {
        let feeding = async {
            if let Some(mut stdin) = stdin {
                // It may stop before it has read all; then it says why.
                let _ = stdin.write_all(call.input).await;
            }
        };
        let (bytes, error, ()) =
            tokio::join!(read(stdout, call.most), read_to_the_end(stderr, ERROR_BYTES), feeding);
        (bytes, error, child.wait().await)
    };
    let waited = timeout(PATIENCE, working).await;
    let ((bytes, extent), error, status) =
        waited.map_err(|_| GitError::TooLong { command: name.to_owned() })?;
    let status = status?;
    // One whose answer is not read to its end dies of the broken pipe.
    if status.success() || extent == super::cut::Extent::Cut {
        return Ok(Answer { bytes, extent });
    }
    let (reason, status) = (reason(&error, status), status.code());
    Err(GitError::Failed { command: name.to_owned(), status, reason })
}

/// Reads so much of a pipe, and lets go of it.
async fn read(
    source: Option<impl AsyncRead + Unpin>,
    most: usize,
) -> (Vec<u8>, super::cut::Extent) {
    let mut bytes = Vec::new();
    if let Some(source) = source {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        // A pipe that breaks has ended.
        let _ = source.take(most.saturating_add(1)).read_to_end(&mut bytes).await;
    }
    match bytes.len() > most {
        true => {
            bytes.truncate(most);
            (bytes, super::cut::Extent::Cut)
        }
        false => (bytes, super::cut::Extent::Whole),
    }
}

/// Keeps so much of a pipe, the last of it, and reads it all the same: a program
/// that warns of every file must not die of a reader who has heard enough.
async fn read_to_the_end(source: Option<impl AsyncRead + Unpin>, most: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut source) = source else { return kept };
    let mut piece = vec![0; ERROR_BYTES];
    while let Ok(count @ 1..) = source.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        let over = kept.len().saturating_sub(most);
        kept.drain(..over);
    }
    kept
}

fn reason(error: &[u8], status: ExitStatus) -> String {
    let text = String::from_utf8_lossy(error);
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => line.chars().take(300).collect(),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::{Call, GitError, run};

    #[tokio::test]
    async fn a_sandbox_without_git_is_told_from_one_where_it_fails() {
        let call = Call { args: &["rev-parse"], index: "", input: b"", most: 10 };
        let missing = run(Command::new("/nonexistent/git"), call).await;
        assert!(matches!(missing, Err(GitError::NotThere)), "{missing:?}");
        let failing = run(Command::new("false"), call).await.unwrap_err();
        assert_eq!(failing.to_string(), "`git rev-parse` failed: exit status: 1");
    }
}
