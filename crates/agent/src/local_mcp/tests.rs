//! What a client on loopback gets.

use std::path::Path;
use std::time::Duration;

use ::http::{Request, StatusCode};
use serde_json::{Value, json};
use wire::agent::CodeMode;

use super::LocalServer;
use crate::code_mode::Interpreter;
use crate::emit::kept::Kept;
use crate::http::{self, whole_body};
use crate::policy::Gate;
use crate::session::Session;

const PATIENCE: Duration = Duration::from_secs(20);

struct Answer {
    status: StatusCode,
    body: Value,
}

/// Asks a server that runs for as long as it takes.
async fn ask(method: &str, bearer: Option<&str>, message: &str, kept: &Kept) -> Answer {
    let directory = tempfile::tempdir().unwrap();
    let mut session = Session::for_test(Path::new("/"), directory.path());
    session.code_mode = CodeMode::On;
    session.limits.tool_timeout_ms = 10_000;
    let out = kept.emitter();
    let gate = Gate::new(&session, &out);
    let server = LocalServer::open().await.unwrap();
    let own = server.bearer.expose().clone();
    let asking = async {
        let bearer = format!("Bearer {}", bearer.unwrap_or(&own));
        let request = Request::builder().method(method).uri(&server.url);
        let request = request.header("authorization", bearer);
        let request = request.body(whole_body(message.to_owned())).unwrap();
        let answer = http::send(request, PATIENCE).await.unwrap();
        let status = answer.status;
        let body = answer.read_whole(1 << 20, PATIENCE).await.unwrap();
        Answer { status, body: serde_json::from_slice(&body).unwrap_or_default() }
    };
    server.serve_during(Interpreter { session: &session, out: &out, gate: &gate }, asking).await
}

async fn request(method: &str, params: Value, kept: &Kept) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let answer = ask("POST", None, &message.to_string(), kept).await;
    assert_eq!((answer.status, &answer.body["id"]), (StatusCode::OK, &json!(7)));
    answer.body
}

#[tokio::test]
async fn only_the_bearer_may_post() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let kept = Kept::default();
    let check = async |method: &str, bearer: Option<&str>, message: &str, expected: u16| {
        assert_eq!(
            ask(method, bearer, message, &kept).await.status.as_u16(),
            expected,
            "{message}"
        );
    };
    check("POST", None, ping, 200).await;
    check("POST", Some("guess"), ping, 401).await;
    check("POST", Some(""), ping, 401).await;
    check("GET", None, "", 405).await;
    check("DELETE", None, "", 405).await;
    check("POST", None, "{", 400).await;
    check("POST", None, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, 202).await;
    check("POST", None, &" ".repeat(2 << 20), 413).await;
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    let kept = Kept::default();
    let listed = request("tools/list", json!({}), &kept).await;
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["execute_typescript", "execute_python"]);
    let params = json!({"name": "execute_python", "arguments": {"pythonCode": "return 6 * 7"}});
    let called = &request("tools/call", params, &kept).await["result"];
    assert_eq!(
        (&called["isError"], &called["structuredContent"]["result"]),
        (&json!(false), &json!(42))
    );
    assert_eq!(called["content"][0]["text"], r#"{"result":42,"success":true}"#);
    let params = json!({"name": "execute_python", "arguments": {"pythonCode": "1 / 0"}});
    let called = &request("tools/call", params, &kept).await["result"];
    assert_eq!(called["isError"], true);
    assert_eq!(called["structuredContent"]["error"]["name"], "ZeroDivisionError");
    // The CLI shows the steps.
    let finished = kept.customs("code_mode:execution_finished");
    assert_eq!((finished.len(), kept.events().len()), (2, 4));
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let kept = Kept::default();
    for (method, params, code) in [
        ("tools/call", json!({"name": "shell"}), -32602),
        ("tools/call", json!({"name": "execute_python", "arguments": {"pythonCode": 1}}), -32602),
        ("tools/call", json!(null), -32602),
        ("resources/list", json!({}), -32601),
    ] {
        assert_eq!(request(method, params, &kept).await["error"]["code"], code, "{method}");
    }
}
