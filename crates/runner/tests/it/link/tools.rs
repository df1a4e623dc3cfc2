//! The caller's tools as an agent inside finds them: an MCP server, whose calls
//! become steps.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, body::Body, routing::post};
use bytes::Bytes;
use futures_util::stream;
use runner::link::{AddressPolicy, Booked, Note, Outbound, Terms, Upstreams};
use sandbox::AccessTokens;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use wire::{
    agent::AgentLimits,
    run::{Outcome, RunId},
};

use super::harness::{Answer, Inside, LINK, Upstream, answer, request, terms};

/// The inside of a run with tools, what opens them, and what is told of them.
struct Scene {
    inside: Inside,
    bearer: String,
    notes: mpsc::UnboundedReceiver<Note>,
}

impl Scene {
    fn of(tools: Value) -> Scene {
        Scene::under(tools, terms())
    }

    fn under(tools: Value, terms: Terms) -> Scene {
        let (upstreams, _) = Upstreams::inline(json!({"tools": tools}), terms).unwrap();
        let run = RunId::from_random([1; 15]);
        Scene::from(upstreams.of_run(run))
    }

    fn from(upstreams: Upstreams) -> Scene {
        let bridge = upstreams.bridge();
        assert_eq!(bridge.url, format!("{LINK}/tools"));
        let mut inside = Inside::of(upstreams);
        let (sender, notes) = mpsc::unbounded_channel();
        let mut told = std::mem::replace(&mut inside.notes, mpsc::channel(1).1);
        tokio::spawn(async move {
            while let Some(mut note) = told.recv().await {
                let mut waiting = Booked::default();
                if let Note::ToolStarted { booked, .. }
                | Note::ToolEnded { booked, .. }
                | Note::Custom { booked, .. } = &mut note
                {
                    waiting = std::mem::take(booked);
                }
                let _ = sender.send(note);
                waiting.done();
            }
        });
        Scene { inside, bearer: bridge.bearer.expose().clone(), notes }
    }

    fn request(&self, method: &str, body: &str) -> http::Request<http_body_util::Full<Bytes>> {
        let mut request = request(method, "/tools", body);
        let bearer = format!("Bearer {}", self.bearer).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        request
    }

    async fn send(&self, body: &str) -> Answer {
        self.inside.ask(self.request("POST", body)).await
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answer = self.send(&body.to_string()).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["content-type"], "application/json");
        let answer = answer.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
        answer
    }

    /// Calls a tool; the text that it returned, or the one of its failure.
    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        if answer["result"]["isError"] == true { Err(text) } else { Ok(text) }
    }

    async fn note(&mut self) -> Note {
        self.notes.recv().await.unwrap()
    }

    /// The next two notes: a call and its outcome.
    async fn step(&mut self) -> (String, Value, Outcome) {
        let Note::ToolStarted { id, name, args, .. } = self.note().await else { panic!() };
        let Note::ToolEnded { id: ended, outcome, .. } = self.note().await else { panic!() };
        assert_eq!(id, ended);
        (name, args, outcome)
    }
}

fn tool(url: &str) -> Value {
    json!([{"name": "look", "description": "Looks.", "parameters": {"type": "object"}, "url": url,
            "headers": {"X-Key": "secret"}}])
}

fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.to_owned(), result: None }
}

#[tokio::test]
async fn an_mcp_client_finds_the_tools() {
    let scene = Scene::of(tool("http://127.0.0.1:1/"));
    let hello = scene.ask("initialize", json!({"protocolVersion": "2025-03-26"})).await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-03-26");
    assert_eq!(hello["result"]["serverInfo"]["name"], "mayfly");
    assert!(hello["result"]["capabilities"]["tools"].is_object());
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let noticed = scene.send(notice).await;
    assert_eq!((noticed.status.as_u16(), noticed.text()), (202, ""));
    assert_eq!(scene.ask("ping", Value::Null).await["result"], json!({}));
    let listed = scene.ask("tools/list", json!({})).await;
    let shown =
        json!([{"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}]);
    assert_eq!(listed["result"]["tools"], shown);
    for method in ["GET", "DELETE", "PUT"] {
        let refused = scene.inside.ask(scene.request(method, "")).await;
        assert_eq!(refused.status, 405, "{method}");
        assert_eq!(refused.headers["allow"], "POST");
    }
}

#[tokio::test]
async fn a_call_goes_to_the_tool_and_becomes_a_step() {
    let server = Upstream::start(|seen| {
        let asked: Value = serde_json::from_slice(&seen.body).unwrap();
        answer(200, "application/json; charset=utf-8", asked["arguments"]["echo"].to_string())
    })
    .await;
    let mut scene = Scene::of(tool(&format!("{}/look?q=1", server.url)));
    for (value, text) in [
        (json!("plain"), "plain"),
        (json!({"a": [1, null]}), r#"{"a":[1,null]}"#),
        (json!(5), "5"),
        (Value::Null, "null"),
    ] {
        let told = scene.call("look", json!({"echo": value})).await;
        assert_eq!(told.as_deref(), Ok(text));
        let (name, args, outcome) = scene.step().await;
        assert_eq!((name.as_str(), &args["echo"]), ("look", &value));
        assert_eq!(outcome, Outcome::Succeeded { result: value, truncated: false });
    }
    let seen = server.last();
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/look?q=1"));
    assert_eq!(seen.header("x-key"), Some("secret"));
    assert_eq!(seen.header("authorization"), None);
    let asked: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(asked["name"], "look");
    assert_eq!(asked["call_id"], "step_tool_4");
    assert_eq!(asked["run_id"], RunId::from_random([1; 15]).as_str());
}

#[tokio::test]
async fn our_own_agent_reads_the_outcome_as_it_is() {
    let server = Upstream::start(|_| answer(200, "application/json", "\"5\"")).await;
    let scene = Scene::of(json!([
        {"name": "look", "url": server.url}, {"name": "ask"},
    ]));
    let asked = |name: &str| json!({"name": name, "_meta": {"mayfly/outcome": true}});
    let answer = scene.ask("tools/call", asked("look")).await;
    let outcome = json!({"status": "succeeded", "result": "5"});
    assert_eq!(answer["result"]["_meta"]["mayfly/outcome"], outcome);
    let answer = scene.ask("tools/call", asked("ask")).await;
    assert_eq!(answer["result"]["_meta"]["mayfly/outcome"], json!({"status": "deferred"}));
}

#[tokio::test]
async fn a_tool_of_the_clients_is_deferred() {
    let mut scene = Scene::of(json!([{"name": "ask"}]));
    let told = scene.call("ask", json!({"x": 1})).await.unwrap();
    assert!(told.contains("with the next message"), "{told}");
    assert_eq!(scene.step().await, ("ask".to_owned(), json!({"x": 1}), Outcome::Deferred));
}

#[tokio::test]
async fn events_of_a_tool_are_told_while_it_executes() {
    let (send, pieces) = mpsc::channel::<Bytes>(1);
    let pieces = Arc::new(Mutex::new(Some(pieces)));
    let server = Upstream::start(move |_| {
        let pieces = pieces.lock().unwrap().take().unwrap();
        let pieces = stream::unfold(pieces, |mut pieces| async {
            Some((Ok::<_, Infallible>(pieces.recv().await?), pieces))
        });
        answer(200, "application/x-ndjson", Body::from_stream(pieces))
    })
    .await;
    let mut scene = Scene::of(tool(&server.url));
    let mut notes = std::mem::replace(&mut scene.notes, mpsc::unbounded_channel().1);
    let call = tokio::spawn(async move { scene.call("look", json!({})).await });
    send.send(Bytes::from("{\"type\":\"custom\",\"name\":\"p\",\"val")).await.unwrap();
    send.send(Bytes::from("ue\":[1]}\n{\"type\":\"custom\",\"name\":\"q\"}\n")).await.unwrap();
    assert!(matches!(notes.recv().await, Some(Note::ToolStarted { .. })));
    let custom = |name: &str, value| {
        Some(Note::Custom { name: name.to_owned(), value, booked: Booked::default() })
    };
    assert_eq!(notes.recv().await, custom("p", json!([1])));
    assert_eq!(notes.recv().await, custom("q", Value::Null));
    assert!(!call.is_finished());
    send.send(Bytes::from("{\"type\":\"result\",\"value\":\"done\"}\n")).await.unwrap();
    assert_eq!(call.await.unwrap().as_deref(), Ok("done"));
    // The end was told before the answer went out.
    assert!(matches!(notes.try_recv(), Ok(Note::ToolEnded { .. })));
}

#[tokio::test]
async fn a_tool_that_fails_says_why_and_the_run_goes_on() {
    let server = Upstream::start(|seen| match seen.path.as_str() {
        "/no" => answer(422, "text/plain", "no such city"),
        "/bare" => answer(500, "text/plain", ""),
        "/moved" => {
            let mut moved = answer(302, "text/plain", "");
            moved.headers_mut().insert("location", "http://127.0.0.1:1/".parse().unwrap());
            moved
        }
        "/html" => answer(200, "text/html", "<p>"),
        "/png" => answer(200, "image/png", "x"),
        "/half" => answer(200, "application/json", "{\"a\":"),
        "/deep" => answer(200, "application/json", "[".repeat(100_000)),
        "/nested" => answer(200, "application/json", "[".repeat(101) + &"]".repeat(101)),
        "/many" => answer(200, "application/json", format!("[{}0]", "{\"\":0},".repeat(140_000))),
        "/big" => answer(200, "application/json", format!("\"{}\"", "x".repeat(1 << 20))),
        "/endless" => {
            let piece = Bytes::from(vec![b' '; 64 << 10]);
            let pieces = stream::repeat_with(move || Ok::<_, Infallible>(piece.clone()));
            answer(200, "application/json", Body::from_stream(pieces))
        }
        "/cut" => {
            let pieces = [Ok(Bytes::from("{")), Err(std::io::Error::other("on purpose"))];
            answer(200, "application/json", Body::from_stream(stream::iter(pieces)))
        }
        "/said" => answer(200, "application/x-ndjson", r#"{"type":"error","message":"no luck"}"#),
        "/none" => answer(200, "application/x-ndjson", "{\"type\":\"custom\",\"name\":\"a\"}\n"),
        "/empty" => answer(204, "application/json", ""),
        path => answer(200, "text/plain", path.to_owned()),
    })
    .await;
    let check = async |path: &str, expected: &str| {
        let mut scene = Scene::of(tool(&format!("{}{path}", server.url)));
        let told = scene.call("look", json!({})).await.unwrap_err();
        assert!(told.starts_with("Tool execution failed: "), "{told}");
        assert!(told.contains(expected), "{path}: {told}");
        assert!(!told.contains("127.0.0.1"), "{told}");
        let mut note = scene.note().await;
        while !matches!(note, Note::ToolEnded { .. }) {
            note = scene.note().await;
        }
        let Note::ToolEnded { outcome: Outcome::Failed { error, .. }, .. } = note else { panic!() };
        assert!(error.contains(expected), "{error}");
    };
    check("/no", "422 Unprocessable Entity: no such city").await;
    check("/bare", "500 Internal Server Error").await;
    check("/moved", "302 Found").await;
    check("/html", "`text/html`").await;
    check("/png", "`image/png`").await;
    check("/half", "not JSON").await;
    check("/deep", "within each other").await;
    check("/nested", "within each other").await;
    check("/many", "too many values").await;
    check("/big", "more than 1048576 bytes").await;
    check("/endless", "more than 1048576 bytes").await;
    check("/cut", "broke ").await;
    check("/said", "no luck").await;
    check("/none", "without a result").await;
    let scene = Scene::of(tool("http://127.0.0.1:1/x"));
    let told = scene.call("look", json!({})).await.unwrap_err();
    assert!(told.contains("cannot be reached"), "{told}");
    let scene = Scene::of(tool("http://169.254.169.254/x"));
    let told = scene.call("look", json!({})).await.unwrap_err();
    assert!(told.contains("may not call"), "{told}");
    for (path, text) in [("/empty", "null"), ("/text", "/text")] {
        let scene = Scene::of(tool(&format!("{}{path}", server.url)));
        assert_eq!(scene.call("look", json!({})).await.as_deref(), Ok(text));
    }
}

#[tokio::test]
async fn a_message_that_would_fill_the_memory_is_not_read() {
    let mut scene = Scene::of(json!([{"name": "ask"}]));
    let call = |rows: usize| {
        let rows = "{\"\":0},".repeat(rows);
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":\
             {{\"name\":\"ask\",\"arguments\":{{\"rows\":[{rows}0]}}}}}}"
        )
    };
    let refused = scene.send(&call(500_000)).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("too many values"), "{}", refused.text());
    // More of them than there are places, and each of them long.
    let body = call(4000);
    let calls = futures_util::future::join_all((0..20).map(|_| scene.send(&body))).await;
    assert!(calls.iter().all(|answer| answer.status == 200));
    let Note::ToolStarted { args, .. } = scene.note().await else { panic!() };
    assert_eq!(args["rows"].as_array().map(Vec::len), Some(4001));
}

#[tokio::test]
async fn a_tool_has_its_own_time_or_that_of_every_tool() {
    let router = Router::new().fallback(post(async || std::future::pending::<()>().await));
    let server = Upstream::serving(router).await;
    let check = async |own: Value, usual: u64, expected: &str| {
        let limits = AgentLimits { tool_timeout_ms: usual, ..AgentLimits::STANDARD };
        let tools = json!([{"name": "look", "url": server.url, "timeout_ms": own}]);
        let scene = Scene::under(tools, Terms { limits, ..terms() });
        let began = Instant::now();
        let told = scene.call("look", json!({})).await.unwrap_err();
        assert!(told.contains(expected), "{told}");
        assert!(began.elapsed() < Duration::from_secs(5));
    };
    check(json!(50), 600_000, "timed out after 50 ms").await;
    check(Value::Null, 60, "timed out after 60 ms").await;
}

#[tokio::test]
async fn whoever_hangs_up_interrupts_the_call() {
    let gone = Arc::new(Notify::new());
    let told = Arc::clone(&gone);
    let called = Arc::new(Notify::new());
    let there = Arc::clone(&called);
    let router = Router::new().fallback(post(async move || {
        struct Dropped(Arc<Notify>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let _dropped = Dropped(told);
        there.notify_one();
        std::future::pending::<()>().await
    }));
    let server = Upstream::serving(router).await;
    let mut scene = Scene::of(tool(&server.url));
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look"}});
    let asked = scene.request("POST", &body.to_string());
    let connection = hyper_util::rt::TokioIo::new(scene.inside.connect().await);
    let (mut sender, driver) = hyper::client::conn::http1::handshake(connection).await.unwrap();
    let driver = tokio::spawn(driver);
    let call = tokio::spawn(async move { sender.send_request(asked).await });
    assert!(matches!(scene.note().await, Note::ToolStarted { .. }));
    called.notified().await;
    call.abort();
    driver.abort();
    let Note::ToolEnded { outcome, .. } = scene.note().await else { panic!() };
    assert_eq!(outcome, failed("interrupted"));
    gone.notified().await;
}

#[tokio::test]
async fn a_call_that_is_not_booked_is_not_made() {
    let server = Upstream::start(|_| answer(200, "application/json", "1")).await;
    let (upstreams, _) = Upstreams::inline(json!({"tools": tool(&server.url)}), terms()).unwrap();
    let bearer = format!("Bearer {}", upstreams.bridge().bearer.expose()).parse().unwrap();
    let mut inside = Inside::of(upstreams);
    let mut told = std::mem::replace(&mut inside.notes, mpsc::channel(1).1);
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look"}});
    let mut asked = request("POST", "/tools", &body.to_string());
    asked.headers_mut().insert("authorization", bearer);
    let refused = async {
        let note = told.recv().await.unwrap();
        // Time for a call that would not wait.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(matches!(note, Note::ToolStarted { .. }));
    };
    let (answered, ()) = tokio::join!(inside.ask(asked), refused);
    assert!(answered.status.is_server_error(), "{}", answered.status);
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn nobody_gets_in_without_the_bearer_of_this_run() {
    let scene = Scene::of(tool("http://127.0.0.1:1/"));
    let other = Scene::of(json!([]));
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for bearer in ["", "Bearer", "Bearer x", &format!("Bearer {}", other.bearer), &scene.bearer] {
        let mut asked = request("POST", "/tools", body);
        asked.headers_mut().insert("authorization", bearer.parse().unwrap());
        let refused = scene.inside.ask(asked).await;
        assert_eq!(refused.refusal(), (401, "unauthorized".to_owned()), "{bearer}");
    }
    let refused = scene.inside.post("/tools", body).await;
    assert_eq!(refused.refusal(), (401, "unauthorized".to_owned()));
    assert_eq!(scene.inside.get("/tools").await.status, 401);
}

#[tokio::test]
async fn hostile_messages_are_refused_and_call_nothing() {
    let mut scene = Scene::of(tool("http://127.0.0.1:1/"));
    for (message, code) in
        [("", -32700), ("\0", -32700), ("[]", -32600), ("{}", -32600), ("\"x\"", -32600)]
    {
        let refused = scene.send(message).await;
        assert_eq!(refused.status, 400, "{message}");
        assert_eq!(refused.json()["error"]["code"], code, "{message}");
    }
    for (params, code) in [
        (json!({}), -32602),
        (json!([]), -32602),
        (json!("look"), -32602),
        (Value::Null, -32602),
        (json!({"name": 1}), -32602),
        (json!({"name": "other"}), -32602),
        (json!({"name": "mayfly__look"}), -32602),
        (json!({"name": "look", "arguments": [1]}), -32602),
        (json!({"name": "look", "arguments": "x"}), -32602),
    ] {
        let refused = scene.ask("tools/call", params.clone()).await;
        assert_eq!(refused["error"]["code"], code, "{params}");
    }
    for method in ["resources/list", "", "tools", "TOOLS/LIST"] {
        assert_eq!(scene.ask(method, json!({})).await["error"]["code"], -32601, "{method}");
    }
    let large = scene.send(&"x".repeat((4 << 20) + 1)).await;
    assert_eq!(large.refusal(), (413, "too_large".to_owned()));
    assert!(scene.notes.try_recv().is_err());
}

#[tokio::test]
async fn only_so_many_calls_run_at_once_and_all_of_them_end() {
    let running = Arc::new(Mutex::new((0, 0)));
    let counted = Arc::clone(&running);
    let router = Router::new().fallback(post(async move || {
        {
            let mut running = counted.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        counted.lock().unwrap().0 -= 1;
        axum::Json(json!("ok"))
    }));
    let server = Upstream::serving(router).await;
    let mut scene = Scene::of(tool(&server.url));
    let mut notes = std::mem::replace(&mut scene.notes, mpsc::unbounded_channel().1);
    let heard = tokio::spawn(async move {
        let mut ended = std::collections::HashSet::new();
        while ended.len() < 60 {
            if let Note::ToolEnded { id, .. } = notes.recv().await.unwrap() {
                assert!(ended.insert(id));
            }
        }
    });
    let calls = (0..60).map(|_| scene.call("look", json!({})));
    let told = futures_util::future::join_all(calls).await;
    assert!(told.iter().all(|told| told.as_deref() == Ok("ok")));
    heard.await.unwrap();
    let most = running.lock().unwrap().1;
    assert!((2..=16).contains(&most), "{most}");
}

#[tokio::test]
async fn tools_and_their_bearer_outlive_the_server() {
    let server = Upstream::start(|_| answer(200, "application/json", "1")).await;
    let key = AccessTokens::new([7; 32]).derive(runner::link::SEAL_LABEL);
    let run = RunId::from_random([3; 15]);
    let config = json!({"tools": tool(&server.url)});
    let (upstreams, _) = Upstreams::inline(config, terms()).unwrap();
    let sealed = upstreams.seal(&run, &key).unwrap();
    let outbound = Outbound::new(AddressPolicy::Standard).unwrap();
    let opened = Upstreams::unseal(&sealed, &run, &key, outbound, 0).unwrap();
    assert_eq!(opened.bridge().bearer.expose(), upstreams.bridge().bearer.expose());
    let scene = Scene::from(opened);
    assert_eq!(scene.call("look", json!({})).await.as_deref(), Ok("1"));
    assert_eq!(server.last().header("x-key"), Some("secret"));
    let asked: Value = serde_json::from_slice(&server.last().body).unwrap();
    assert_eq!(asked["run_id"], run.as_str());
}

#[test]
fn the_config_that_enters_says_nothing_of_where_tools_are() {
    let (upstreams, config) =
        Upstreams::inline(json!({"tools": tool("http://h/look?key=1")}), terms()).unwrap();
    let shown = config.to_string();
    for hidden in ["http://h", "secret", "X-Key", "key=1"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
    assert_eq!(config["tools"][0]["name"], "look");
    let debug = format!("{upstreams:?}");
    assert!(!debug.contains("secret"), "{debug}");
    assert!(!debug.contains(upstreams.bridge().bearer.expose()), "{debug}");
}
