//! One run of the real program against a provider that says what it is told
//! to, byte by byte, on a real socket.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// What the provider does with one connection.
pub(crate) enum Reply {
    /// Sends these bytes and hangs up.
    Bytes(String),
    /// Sends these bytes and then nothing more, for as long as anybody waits.
    ThenSilence(String),
    /// Sends the first, and then the second over and over.
    Endless(String, String),
    /// Sends these pieces with a pause after each.
    Slowly(Vec<String>, Duration),
    /// Hangs up without a word.
    HangUp,
}

/// A question that the provider was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method, path and headers, as they came.
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A run that is about to be.
pub(crate) struct Scene {
    pub(crate) config: Value,
    pub(crate) prompt: String,
    pub(crate) limits: Value,
    pub(crate) variables: Value,
    pub(crate) policy: Value,
    pub(crate) code_mode: Value,
    replies: Vec<Reply>,
}

/// A run that is over.
pub(crate) struct Played {
    pub(crate) lines: Vec<Value>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) workspace: TempDir,
}

impl Scene {
    /// A run with this model in its configuration, and these answers.
    pub(crate) fn new(model: Value, replies: Vec<Reply>) -> Scene {
        let limits = json!({
            "model_timeout_ms": 5000,
            "callback_timeout_ms": 5000,
            "config_bytes": 1 << 20,
            "skill_bytes": 1 << 20,
            "bag_bytes": 1 << 20,
            "upload_files": 20,
            "upload_file_bytes": 1 << 20,
            "upload_total_bytes": 1 << 20,
            "tool_result_bytes": 1 << 20,
            "tool_timeout_ms": 20_000,
        });
        Scene {
            config: json!({"system_prompt": "Be brief.", "model": model}),
            prompt: "Do it.".to_owned(),
            limits,
            variables: json!({}),
            policy: Value::Null,
            code_mode: json!("off"),
            replies,
        }
    }

    /// Runs it to its end.
    pub(crate) fn play(self) -> Played {
        let workspace = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = format!("http://{}", listener.local_addr().unwrap());
        let asked = provide(listener, self.replies);
        let bootstrap = json!({
            "run_id": "run_0123456789abcdefghjkmnpq",
            "link": link,
            "prompt": self.prompt,
            "chat_id": null,
            "source": {"kind": "inline", "env": {"variables": self.variables}, "config": self.config},
            "workspace_dir": workspace.path(),
            "harness": "builtin",
            "bridge": {"url": format!("{link}/tools"), "bearer": "bearer_secret"},
            "policy": self.policy,
            "code_mode": self.code_mode,
            "limits": self.limits,
        });
        let mut agent = Command::new(env!("CARGO_BIN_EXE_mayfly-agent"))
            // Login shells read profiles there, and nobody's should be read.
            .env("HOME", workspace.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = agent.stdin.take().unwrap();
        input.write_all(bootstrap.to_string().as_bytes()).unwrap();
        drop(input);
        let output = agent.wait_with_output().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let asked = asked.lock().unwrap().clone();
        Played { lines, asked, workspace }
    }
}

impl Played {
    /// All events of one kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Value> {
        self.lines.iter().filter(|line| line["type"] == kind).collect()
    }

    /// What was said, all pieces together.
    pub(crate) fn said(&self, kind: &str) -> String {
        self.of(kind).iter().map(|line| line["delta"].as_str().unwrap()).collect()
    }

    /// The final message.
    #[track_caller]
    pub(crate) fn result(&self) -> &str {
        let last = self.lines.last().unwrap();
        assert_eq!(last["type"], "result", "{last}");
        last["message"].as_str().unwrap()
    }

    /// Code and message of the failure.
    #[track_caller]
    pub(crate) fn error(&self) -> (&str, &str) {
        let last = self.lines.last().unwrap();
        assert_eq!(last["type"], "error", "{last}");
        (last["code"].as_str().unwrap(), last["message"].as_str().unwrap())
    }

    /// The warnings.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        let logs = self.of("log").into_iter().filter(|line| line["level"] == "warn");
        logs.map(|line| line["message"].as_str().unwrap()).collect()
    }
}

/// An answer in good order: a stream of events.
pub(crate) fn events(data: &[&str]) -> Reply {
    Reply::Bytes(stream(data))
}

/// The bytes of a stream of events.
pub(crate) fn stream(data: &[&str]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let events: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    format!("{head}{events}")
}

/// An answer with a bad status.
pub(crate) fn refusal(status: &str, headers: &str, body: &Value) -> Reply {
    let body = body.to_string();
    Reply::Bytes(format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

/// Answers connections in turn; who comes after the last reply is hung up on.
fn provide(listener: TcpListener, replies: Vec<Reply>) -> Arc<Mutex<Vec<Asked>>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    let mut replies = VecDeque::from(replies);
    // Ends with the test process: nobody connects once the agent is gone.
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let Some(question) = question(&mut connection) else { continue };
            kept.lock().unwrap().push(question);
            let reply = replies.pop_front().unwrap_or(Reply::HangUp);
            thread::spawn(move || answer(connection, reply));
        }
    });
    asked
}

fn question(connection: &mut TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { head, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

fn answer(mut connection: TcpStream, reply: Reply) {
    // The agent may hang up at any time; then there is nobody to answer.
    let _ = match reply {
        Reply::Bytes(bytes) => connection.write_all(bytes.as_bytes()),
        Reply::ThenSilence(bytes) => {
            let written = connection.write_all(bytes.as_bytes());
            let _ = connection.read(&mut [0]);
            written
        }
        Reply::Endless(first, again) => {
            let mut written = connection.write_all(first.as_bytes());
            while written.is_ok() {
                written = connection.write_all(again.as_bytes());
            }
            written
        }
        Reply::Slowly(pieces, pause) => pieces.iter().try_for_each(|piece| {
            connection.write_all(piece.as_bytes())?;
            thread::park_timeout(pause);
            Ok(())
        }),
        Reply::HangUp => Ok(()),
    };
}
