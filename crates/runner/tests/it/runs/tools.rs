//! Tools of the caller, called by an agent made of shell: their steps in the log
//! of a whole run.

use std::{convert::Infallible, time::Duration};

use axum::{Router, body::Body, http::header, response::IntoResponse, routing::post};
use bytes::Bytes;
use futures_util::stream;
use isolate::Tier;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::server::{Plan, TestServer, agent, place, run_id};

/// Calls a tool as any MCP client would, by the task's own bearer.
const CALL: &str = r#"
port=$(printf '%s' "$task" | sed 's#.*"url":"http://127.0.0.1:\([0-9]*\)/tools".*#\1#')
bearer=$(printf '%s' "$task" | sed 's/.*"bearer":"\([0-9a-f]*\)".*/\1/')
call() {
  body='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"'$1'","arguments":{"n":1},"_meta":{"mayfly/line":'$n'}}}'
  bash -c 'exec 3<>/dev/tcp/127.0.0.1/$0
    printf "POST /tools HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" "$1" "${#2}" "$2" >&3
    exec cat <&3' "$port" "$bearer" "$body"
}
text() { say "\"type\":\"text\",\"message_id\":\"$1\",\"delta\":\"$1\""; }
"#;

/// A server of tools; it ends with the test's runtime.
async fn tools() -> String {
    let stream = async || {
        let lines = [
            "{\"type\":\"custom\",\"name\":\"progress\",\"value\":50}\n",
            "{\"type\":\"result\",\"value\":{\"ok\":true}}\n",
        ];
        let lines = lines.map(|line| Ok::<_, Infallible>(Bytes::from(line)));
        let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
        (kind, Body::from_stream(stream::iter(lines))).into_response()
    };
    let router = Router::new()
        .route("/stream", post(stream))
        .route("/never", post(async || std::future::pending::<()>().await));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn kinds(log: &[Value]) -> Vec<String> {
    let after = log.iter().skip_while(|entry| entry["type"] != "text");
    after.map(|entry| entry["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_step_between_what_the_agent_said_before_and_after() {
    let place = place();
    let url = tools().await;
    let script = "for i in 1 2 3 4 5; do text a; call look >/dev/null; text b; done\n\
                  case $(call ask) in *'next message'*) result told;; *) result lost;; esac";
    let agent = agent(place.path(), &format!("{CALL}{script}"));
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let tools = json!([{"name": "look", "url": format!("{url}/stream")}]);
    let config = json!({"tools": [{"name": "ask"}]});
    let response = server.dispatch(json!({"tools": tools, "config": config})).await;
    assert_eq!(response.status(), 200);
    let id = run_id(&response);
    response.text().await.unwrap();
    let log = server.raw(&id).await;
    let expected = ["text", "step_started", "custom", "step_ended", "text"].repeat(5);
    let expected: Vec<&str> =
        expected.into_iter().chain(["step_started", "step_ended", "result"]).collect();
    assert_eq!(kinds(&log), expected);
    let of = |kind: &str| log.iter().filter(|entry| entry["type"] == kind).collect::<Vec<_>>();
    let started = of("step_started")[0];
    assert_eq!((&started["name"], &started["args"]), (&json!("look"), &json!({"n": 1})));
    assert_eq!(started["id"], "step_tool_1");
    assert_eq!(of("step_ended")[0]["result"], json!({"ok": true}));
    assert_eq!(of("custom")[0]["value"], 50);
    assert_eq!(of("step_ended")[5]["status"], "deferred");
    assert_eq!(of("result")[0]["message"], "told");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_kills_its_call_interrupts_the_step() {
    let place = place();
    let url = tools().await;
    let script = "text a; call look & sleep 1; pkill -P $!; kill $!; sleep 1; text b; result done";
    let agent = agent(place.path(), &format!("{CALL}{script}"));
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let tools = json!([{"name": "look", "url": format!("{url}/never")}]);
    let response = server.dispatch(json!({"tools": tools})).await;
    let id = run_id(&response);
    response.text().await.unwrap();
    let log = server.raw(&id).await;
    assert_eq!(kinds(&log), ["text", "step_started", "step_ended", "text", "result"]);
    let ended = log.iter().find(|entry| entry["type"] == "step_ended").unwrap();
    assert_eq!((&ended["status"], &ended["error"]), (&json!("failed"), &json!("interrupted")));
    server.end().await;
}

#[test]
fn a_call_through_a_killed_server_is_interrupted_and_the_next_one_works() {
    let place = place();
    let plan = || Plan { tier: Tier::Native, ..Plan::PLAIN };
    let script = "text a; call look >/dev/null; text b; call ask >/dev/null; result survived";
    let agent = agent(place.path(), &format!("{CALL}{script}"));
    // Dropping its runtime is a server that is killed.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let id = runtime.block_on(async {
        let server = TestServer::start(place.path(), agent.clone(), plan()).await?;
        let url = tools().await;
        let tools = json!([{"name": "look", "url": format!("{url}/never")}]);
        let config = json!({"tools": [{"name": "ask"}]});
        let body = json!({"tools": tools, "config": config, "on_disconnect": "continue"});
        let id = run_id(&server.dispatch(body).await);
        while !server.read(&format!("/runs/{id}/files/stream.jsonl")).await.contains("step_tool_1")
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Some(id)
    });
    runtime.shutdown_background();
    let Some(id) = id else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let log = runtime.block_on(async {
        let server = TestServer::start(place.path(), agent, plan()).await.unwrap();
        let log = server.raw(&id).await;
        server.end().await;
        log
    });
    let steps: Vec<_> = log
        .iter()
        .filter(|entry| entry["type"].as_str().unwrap().starts_with("step"))
        .map(|entry| (entry["id"].as_str().unwrap(), entry["status"].as_str().unwrap_or_default()))
        .collect();
    let expected = [
        ("step_tool_1", ""),
        ("step_tool_1", "failed"),
        ("step_tool_2", ""),
        ("step_tool_2", "deferred"),
    ];
    assert_eq!(steps, expected);
    assert_eq!(log.last().unwrap()["message"], "survived");
}
