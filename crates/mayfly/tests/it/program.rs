//! Runs the binary in a directory of its own, with an environment of its own.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A directory to run the program in.
pub(crate) struct Program {
    directory: TempDir,
}

impl Program {
    pub(crate) fn new() -> Program {
        Program { directory: tempfile::tempdir().unwrap() }
    }

    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file into the directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The command, not yet started. `MAYFLY_*` of whoever runs the tests must
    /// not decide them.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mayfly"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MAYFLY_") {
                command.env_remove(name);
            }
        }
        command.args(arguments).current_dir(self.directory.path());
        command
    }

    /// Runs it to its end, which has to be a good one, and gives its stdout.
    #[track_caller]
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same for one that prints JSON.
    #[track_caller]
    pub(crate) fn succeed_json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.succeed(arguments)).unwrap()
    }

    /// Runs it to its end, which has to be a bad one, and gives its stderr.
    #[track_caller]
    pub(crate) fn fail(&self, arguments: &[&str]) -> String {
        fail(&mut self.command(arguments))
    }
}

/// Runs a command that has to fail and gives its stderr.
#[track_caller]
pub(crate) fn fail(command: &mut Command) -> String {
    // A server that starts after all would be waited for forever.
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.code().is_some_and(|code| code != 0), "{command:?} did not fail");
    stderr(&output)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
