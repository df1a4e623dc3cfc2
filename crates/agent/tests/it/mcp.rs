//! MCP servers made with the official SDK: one inside, over stdio, and one
//! elsewhere, over streamable HTTP.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::scene::{Played, Scene};

/// The example server. Cargo builds examples together with tests.
fn server() -> PathBuf {
    let programs = PathBuf::from(env!("CARGO_BIN_EXE_mayfly-agent"));
    let server = programs.parent().unwrap().join("examples/mcp-tools");
    assert!(server.exists(), "{} is missing: build with --examples", server.display());
    server
}

/// The server over HTTP. It ends when its input does.
struct HttpServer {
    child: Child,
    url: String,
}

impl HttpServer {
    fn start() -> HttpServer {
        let mut child = Command::new(server())
            .arg("http")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        HttpServer { child, url: url.trim().to_owned() }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Calls one tool with the server of this configuration attached.
fn call(servers: Value, calls: Value, limits: Option<u64>) -> Played {
    let script = json!([{"tool_calls": calls}, {"text": "Done."}]);
    let mut scene = Scene::new(json!({"provider": "scripted", "script": script}), Vec::new());
    scene.config["mcp_servers"] = servers;
    scene.variables = json!({"SHARED": "from the environment"});
    if let Some(limit) = limits {
        scene.limits["tool_timeout_ms"] = json!(limit);
    }
    let played = scene.play();
    assert_eq!(played.result(), "Done.");
    played
}

fn stdio(name: &str) -> Value {
    json!({"name": name, "transport": "stdio", "command": server(), "args": [], "env": {"OWN": "of its own"}})
}

#[test]
fn tools_of_a_server_inside_are_called() {
    let played = call(
        json!([stdio("my tools")]),
        json!([
            {"name": "mcp__my_tools__add", "args": {"a": 2, "b": 3}},
            {"name": "mcp__my_tools__variable", "args": {"name": "SHARED"}},
            {"name": "mcp__my_tools__variable", "args": {"name": "OWN"}},
            {"name": "mcp__my_tools__fail", "args": {}},
        ]),
        None,
    );
    let starts: Vec<Value> =
        played.of("step_started").iter().map(|step| step["id"].clone()).collect();
    let ended = |place: usize| -> Value {
        let steps = played.of("step_ended");
        (*steps.iter().find(|step| step["id"] == starts[place]).unwrap()).clone()
    };
    assert_eq!(played.of("step_started")[0]["name"], "mcp__my_tools__add");
    assert_eq!(ended(0)["result"], json!({"sum": 5}));
    assert_eq!(ended(1)["result"], "from the environment");
    assert_eq!(ended(2)["result"], "of its own");
    assert_eq!(
        (&ended(3)["status"], &ended(3)["error"]),
        (&json!("failed"), &json!("it did not work"))
    );
}

#[test]
fn tools_of_a_server_elsewhere_are_called() {
    let server = HttpServer::start();
    let played = call(
        json!([{"name": "far", "transport": "http", "url": server.url}]),
        json!([
            {"name": "mcp__far__add", "args": {"a": 20, "b": 22}},
            {"name": "mcp__far__fail", "args": {}},
        ]),
        None,
    );
    let ended = played.of("step_ended");
    let succeeded = ended.iter().find(|step| step["status"] == "succeeded").unwrap();
    assert_eq!(succeeded["result"], json!({"sum": 42}));
    assert!(ended.iter().any(|step| step["error"] == "it did not work"));
    assert_eq!(played.warnings(), [""; 0]);
}

#[test]
fn a_server_that_does_not_start_is_a_warning() {
    let played = call(
        json!([
            {"name": "gone", "transport": "stdio", "command": "/no/such/program"},
            {"name": "mute", "transport": "stdio", "command": "true"},
            {"name": "nowhere", "transport": "http", "url": "http://127.0.0.1:1/mcp"},
            stdio("here"),
        ]),
        json!([{"name": "mcp__gone__add", "args": {}}, {"name": "mcp__here__add", "args": {"a": 1, "b": 1}}]),
        None,
    );
    let warnings = played.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (warning, name) in warnings.iter().zip(["gone", "mute", "nowhere"]) {
        assert!(
            warning.starts_with(&format!("MCP server `{name}` is not available: ")),
            "{warning}"
        );
    }
    let errors: Vec<&Value> = played.of("step_ended").iter().map(|step| &step["error"]).collect();
    assert!(errors.contains(&&json!("there is no tool `mcp__gone__add`")), "{errors:?}");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let played = call(
        json!([{"name": "stuck", "transport": "stdio", "command": "sleep", "args": ["60"]}]),
        json!([{"name": "list_files"}]),
        Some(1000),
    );
    let expected = "MCP server `stuck` is not available: it took longer than 1000 ms to start";
    assert_eq!(played.warnings(), [expected]);
}

#[test]
fn a_call_that_takes_too_long_is_given_up() {
    let played = call(
        json!([stdio("slow")]),
        json!([{"name": "mcp__slow__sleep", "args": {"ms": 60_000}}]),
        Some(1500),
    );
    assert_eq!(played.of("step_ended")[0]["error"], "timed out after 1500 ms");
}
