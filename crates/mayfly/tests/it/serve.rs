//! A server from its banner to SIGTERM.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::{Program, fail};

/// A running server; dropped without `stop` it is killed.
struct Server {
    child: Child,
    banner: String,
    address: String,
}

impl Server {
    fn start(command: &mut Command) -> Server {
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--tier", "process", "--envd", "/bin/sh"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("node -e") {
            assert_ne!(lines.read_line(&mut banner).unwrap(), 0, "the banner ended: {banner}");
        }
        let first = banner.lines().next().unwrap();
        let address = first.split("http://").nth(1).unwrap().to_owned();
        Server { child, banner, address }
    }

    fn key(&self) -> Option<&str> {
        let line = self.banner.lines().find(|line| line.contains("API key"))?;
        line.split_whitespace().find(|word| word.starts_with("e2b_"))
    }

    fn get(&self, path: &str) -> String {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    fn stop(mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

#[test]
fn the_first_start_makes_a_key_and_the_second_does_not() {
    let program = Program::new();
    let server = Server::start(&mut program.command(&[]));
    assert_eq!(server.key().map(str::len), Some(44), "{}", server.banner);
    assert!(!server.banner.contains('\x1b'), "{}", server.banner);
    let health = server.get("/health");
    assert!(health.starts_with("HTTP/1.1 2"), "{health}");
    assert!(server.stop(Signal::SIGTERM).success());

    let server = Server::start(&mut program.command(&[]));
    assert_eq!(server.key(), None, "{}", server.banner);
    assert!(server.banner.contains("mayfly keys create --data ./mayfly-data"));
    assert!(server.stop(Signal::SIGINT).success());

    let keys = program.succeed_json(&["keys", "list", "--json"]);
    assert_eq!(keys.as_array().unwrap().len(), 1);
}

#[test]
fn a_given_key_is_taken_on_every_start_until_it_is_revoked() {
    let program = Program::new();
    let given = format!("e2b_{}", "4f".repeat(20));
    for _ in 0..2 {
        let server = Server::start(program.command(&[]).env("MAYFLY_API_KEY", &given));
        assert_eq!(server.key(), Some(given.as_str()), "{}", server.banner);
        assert!(server.stop(Signal::SIGTERM).success());
    }
    let keys = program.succeed_json(&["keys", "list", "--json"]);
    let id = keys[0]["id"].as_str().unwrap();
    assert_eq!(keys.as_array().unwrap().len(), 1);

    program.succeed(&["keys", "revoke", id]);
    let mut command = program.command(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--tier",
        "process",
        "--envd",
        "/bin/sh",
    ]);
    let text = fail(command.env("MAYFLY_API_KEY", &given));
    assert!(text.contains(&format!("API key `{id}` was revoked")), "{text}");
    assert!(!text.contains(&given), "{text}");
}

#[test]
fn an_address_in_use_is_said_and_makes_no_key_that_nobody_sees() {
    let program = Program::new();
    let server = Server::start(&mut program.command(&[]));
    let taken = server.address.as_str();
    let arguments = ["serve", "--tier", "process", "--data", "other", "--envd", "/bin/sh"];
    let text = program.fail(&[&arguments[..], &["--listen", taken]].concat());
    assert!(text.contains(&format!("cannot listen on {taken}")), "{text}");
    let keys = program.succeed_json(&["keys", "list", "--json", "--data", "other"]);
    assert_eq!(keys, serde_json::json!([]));
}
