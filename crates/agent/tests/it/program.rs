//! Runs the real program with a bootstrap on its standard input, and reads what
//! it says. Its home and its workspace are directories of the test's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use wire::run::{AgentLine, ErrorCode, Event};

use crate::host::Host;

pub(crate) const OTP_SETUP: &str = "otp_setup_secret";
pub(crate) const OTP_RUN: &str = "otp_run_secret";
pub(crate) const OTP_UPLOAD: &str = "otp_upload_secret";

/// A place to run the agent in.
pub(crate) struct Agent {
    home: TempDir,
    /// The document it is given; tests change it before they run it.
    pub(crate) bootstrap: Value,
}

/// An agent that runs. Dropping it ends it.
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// All that an agent said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) events: Vec<Event>,
}

impl Agent {
    /// An agent that calls back to a host.
    pub(crate) fn new(host: &Host) -> Agent {
        let home = tempfile::tempdir().unwrap();
        let bootstrap = json!({
            "run_id": "run_0123456789abcdefghjkmnpq",
            "link": host.link,
            "prompt": "Say done",
            "chat_id": null,
            "source": {"kind": "callbacks", "otp_setup": OTP_SETUP, "otp_run": OTP_RUN,
                       "otp_upload": OTP_UPLOAD},
            "workspace_dir": home.path().join("workspace"),
            "harness": "builtin",
            "bridge": {"url": "http://127.0.0.1:1/tools", "bearer": "bearer_secret"},
            "limits": {
                "model_timeout_ms": 2000, "callback_timeout_ms": 30000, "config_bytes": 65536,
                "skill_bytes": 100_000, "bag_bytes": 1_000_000, "upload_files": 3,
                "upload_file_bytes": 100_000, "upload_total_bytes": 150_000,
                "tool_result_bytes": 1_048_576, "tool_timeout_ms": 10000
            }
        });
        Agent { home, bootstrap }
    }

    /// Makes callbacks impatient.
    pub(crate) fn impatient(mut self) -> Agent {
        self.bootstrap["limits"]["callback_timeout_ms"] = json!(300);
        self
    }

    /// A path below its home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Starts it and gives it its document.
    pub(crate) fn start(&self) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mayfly-agent"))
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(self.bootstrap.to_string().as_bytes()).unwrap();
        drop(stdin);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Running { child, stdout }
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(&self) -> Said {
        self.start().finish(Vec::new())
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line; `None` at the end.
    pub(crate) fn next_line(&mut self) -> Option<AgentLine> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line).unwrap() {
            0 => None,
            _ => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    /// Reads on to the end, and checks what holds for every run: lines are
    /// numbered from 1, steps end, and the terminal event is the last.
    #[track_caller]
    pub(crate) fn finish(mut self, mut lines: Vec<AgentLine>) -> Said {
        lines.extend(std::iter::from_fn(|| self.next_line()));
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert!(rest.is_empty(), "{rest}");
        assert!(self.child.wait().unwrap().success());
        for (place, line) in lines.iter().enumerate() {
            assert_eq!(usize::try_from(line.n).unwrap(), place + 1);
            assert_eq!(line.event.is_terminal(), place + 1 == lines.len(), "{line:?}");
        }
        let started = lines.iter().filter(|line| matches!(line.event, Event::StepStarted { .. }));
        let ended = lines.iter().filter(|line| matches!(line.event, Event::StepEnded { .. }));
        assert_eq!(started.count(), ended.count());
        Said { events: lines.into_iter().map(|line| line.event).collect() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it is over already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    /// The final message.
    #[track_caller]
    pub(crate) fn result(&self) -> &str {
        match self.events.last() {
            Some(Event::Result { message }) => message,
            other => panic!("no result: {other:?}"),
        }
    }

    /// The message of the error that ended it, which has to have that code.
    #[track_caller]
    pub(crate) fn error(&self, expected: ErrorCode) -> &str {
        match self.events.last() {
            Some(Event::Error { code, message }) if *code == expected => message,
            other => panic!("not {expected}: {other:?}"),
        }
    }

    /// Messages of its log lines.
    pub(crate) fn logs(&self) -> Vec<&str> {
        let mut logs = Vec::new();
        for event in &self.events {
            if let Event::Log { message, .. } = event {
                logs.push(message.as_str());
            }
        }
        logs
    }
}
