//! Runs as AG-UI: the three encodings, coming back in the middle, and the route
//! of front ends.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Json, Router, extract::State, routing::post};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use wire::{
    agui::{AguiChecker, AguiEvent, encode_proto},
    sse::Decoder,
};

use super::server::{Plan, RAW, TestServer, agent, json_lines, place, program, run_id};

const SSE: &str = "text/event-stream";
const NDJSON: &str = "application/vnd.ag-ui.event+ndjson";
const BINARY: &str = "application/vnd.ag-ui.event+proto";

/// Something of everything: a thought, a message, steps side by side, a custom
/// event, a file, and a message that is left open.
const TALK: &str = r#"
say '"type":"reasoning","message_id":"m0","delta":"hm"'
say '"type":"text","message_id":"m1","delta":"hel"'
say '"type":"text","message_id":"m1","delta":"lo"'
step 1; step 2; done_step 2; done_step 1
say '"type":"usage","input_tokens":3,"output_tokens":4'
say '"type":"custom","name":"n","value":null'
say '"type":"file","change":"create","path":"a.txt"'
say '"type":"text","message_id":"m2","delta":"bye"'
result bye"#;

/// The events of a stream with their ids, as any reader of server-sent ones has
/// them.
#[track_caller]
fn sse(text: &str) -> Vec<(String, Value)> {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(text.as_bytes());
    let mut events = Vec::new();
    while let Some(event) = decoder.pop().unwrap() {
        assert_eq!(event.event, None);
        events.push((event.id.unwrap(), serde_json::from_str(&event.data).unwrap()));
    }
    events
}

/// Whether the events are a whole stream by AG-UI's rules. Gives their types.
#[track_caller]
fn check<'a>(events: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let mut checker = AguiChecker::default();
    let mut types = Vec::new();
    for event in events {
        types.push(event["type"].as_str().unwrap().to_owned());
        checker.check(&serde_json::from_value::<AguiEvent>(event.clone()).unwrap()).unwrap();
    }
    checker.end().unwrap();
    types
}

/// The messages of a binary stream.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(usize::try_from(u32::from_be_bytes(*length)).unwrap());
        frames.push(frame.to_vec());
        bytes = rest;
    }
    frames
}

/// The events as a binary stream has them.
fn as_frames<'a>(events: impl IntoIterator<Item = &'a Value>) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for event in events {
        encode_proto(&serde_json::from_value(event.clone()).unwrap(), &mut bytes);
    }
    frames(&bytes)
}

/// A request of a front end, with some fields replaced.
fn input(changes: Value) -> Value {
    let mut body = json!({
        "threadId": "thread-1", "runId": "front-1", "state": {}, "tools": [], "context": [],
        "messages": [{"id": "1", "role": "user", "content": "hello"}], "forwardedProps": {},
    });
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body
}

async fn agui(server: &TestServer, changes: Value) -> Response {
    server.post("/agui", &input(changes)).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_encoding_read_from_any_place_on_is_the_rest_of_the_whole() {
    let place = place();
    let agent = agent(place.path(), TALK);
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let body = super::server::inline(json!({}));
    let response = server.post("/stream", &body).header("accept", SSE).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], SSE);
    let id = run_id(&response);
    let events = sse(&response.text().await.unwrap());
    let types = check(events.iter().map(|(_, event)| event));
    assert_eq!(types.first().map(String::as_str), Some("RUN_STARTED"));
    assert_eq!(types.last().map(String::as_str), Some("RUN_FINISHED"));
    for expected in ["REASONING_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_RESULT"] {
        assert!(types.iter().any(|kind| kind == expected), "{types:?}");
    }
    let path = format!("/runs/{id}/stream");
    let get = |accept: &'static str, after: String| {
        let request = server.get(&format!("{path}?after={after}")).header("accept", accept);
        async move { request.send().await.unwrap().bytes().await.unwrap() }
    };
    let ids = events.iter().map(|(id, _)| id.clone());
    for (index, after) in std::iter::once("0".to_owned()).chain(ids).enumerate() {
        let rest: Vec<&Value> = events[index..].iter().map(|(_, event)| event).collect();
        let request = server.get(&path).header("accept", SSE).header("last-event-id", &after);
        let seen = sse(&request.send().await.unwrap().text().await.unwrap());
        assert_eq!(seen, events[index..], "after {after}");
        let by_query = get(SSE, after.clone()).await;
        assert_eq!(sse(std::str::from_utf8(&by_query).unwrap()), seen, "after {after}");
        let lines = get(NDJSON, after.clone()).await;
        let lines = json_lines(std::str::from_utf8(&lines).unwrap());
        assert_eq!(lines.iter().collect::<Vec<_>>(), rest, "after {after}");
        let binary = get(BINARY, after.clone()).await;
        assert_eq!(frames(&binary), as_frames(rest), "after {after}");
    }
    // What stops an `EventSource`.
    let last = events.last().map(|(id, _)| id.clone()).unwrap();
    let over = server.get(&format!("{path}?after={last}")).header("accept", SSE);
    assert_eq!(over.send().await.unwrap().status(), 204);
    for wrong in ["x", "1.", "-1", "1.2.3"] {
        let by_query = server.get(&format!("{path}?after={wrong}")).send().await.unwrap();
        assert_eq!(by_query.status(), 400, "{wrong}");
        let by_header = server.get(&path).header("last-event-id", wrong).send().await.unwrap();
        assert_eq!(by_header.status(), 400, "{wrong}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_was_read_in_part_is_whole_in_the_raw_log() {
    let place = place();
    let agent = agent(place.path(), TALK);
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let response = server.dispatch(json!({})).await;
    let id = run_id(&response);
    response.text().await.unwrap();
    for (after, first) in [("3", 4), ("3.1", 3)] {
        let request = server.get(&format!("/runs/{id}/stream?after={after}")).header("accept", RAW);
        let lines = json_lines(&request.send().await.unwrap().text().await.unwrap());
        assert_eq!(lines[0]["seq"], first, "after {after}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_gets_server_sent_events_under_its_own_names() {
    let place = place();
    let agent = agent(place.path(), TALK);
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let response = agui(&server, json!({})).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], SSE);
    let id = run_id(&response);
    let events = sse(&response.text().await.unwrap());
    check(events.iter().map(|(_, event)| event));
    let (_, first) = &events[0];
    assert_eq!((&first["threadId"], &first["runId"]), (&json!("thread-1"), &json!("front-1")));
    assert_eq!(first["metadata"]["mayfly"]["runId"], json!(id));
    let (_, last) = events.last().unwrap();
    assert_eq!(last["result"], json!({"message": "bye"}));
    for (accept, content_type) in
        [("application/x-ndjson", "application/x-ndjson"), (NDJSON, NDJSON), (BINARY, BINARY)]
    {
        let request = server.post("/agui", &input(json!({}))).header("accept", accept);
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], content_type);
        let bytes = response.bytes().await.unwrap();
        let count = if accept == BINARY {
            frames(&bytes).len()
        } else {
            let lines = json_lines(std::str::from_utf8(&bytes).unwrap());
            check(&lines);
            lines.len()
        };
        assert_eq!(count, events.len(), "{accept}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_that_hangs_up_ends_the_run_unless_it_said_otherwise() {
    let place = place();
    let agent = agent(place.path(), "log begun; sleep 2; result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let mut kept = agui(&server, json!({"forwardedProps": {"onDisconnect": "continue"}})).await;
    let mut dropped = agui(&server, json!({})).await;
    let ids = [run_id(&kept), run_id(&dropped)];
    kept.chunk().await.unwrap().unwrap();
    dropped.chunk().await.unwrap().unwrap();
    drop((kept, dropped));
    for (id, end) in ids.iter().zip(["RUN_FINISHED", "RUN_ERROR"]) {
        let request = server.get(&format!("/runs/{id}/stream")).header("accept", SSE);
        let events = sse(&request.send().await.unwrap().text().await.unwrap());
        let types = check(events.iter().map(|(_, event)| event));
        assert_eq!(types.last().map(String::as_str), Some(end));
    }
    let hung_up = Instant::now();
    while server.sandboxes.count() > 0 {
        assert!(hung_up.elapsed() < Duration::from_secs(5), "a sandbox is left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_of_a_front_end_is_refused_by_the_name_of_its_field() {
    let place = place();
    let agent = agent(place.path(), "result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    for (changes, field) in [
        (json!({"threadId": 7}), "`threadId`"),
        (json!({"runId": null}), "`runId`"),
        (json!({"messages": {}}), "`messages`"),
        (json!({"messages": []}), "`messages`"),
        (json!({"messages": [{"role": "user", "content": 1}]}), "`messages[0].content`"),
        (
            json!({"tools": [{"name": "no space", "description": "", "parameters": {}}]}),
            "`tools[0].name`",
        ),
        (json!({"forwardedProps": 1}), "`forwardedProps`"),
        (json!({"forwardedProps": {"template": 1}}), "`forwardedProps.template`"),
        (json!({"forwardedProps": {"template": "nobody"}}), "`template`"),
        (json!({"forwardedProps": {"harness": "codex"}}), "`forwardedProps.config.model.provider`"),
        (json!({"forwardedProps": {"sessionId": "../x"}}), "`forwardedProps.session_id`"),
    ] {
        let response = agui(&server, changes.clone()).await;
        assert_eq!(response.status(), 400, "{changes}");
        let text = response.text().await.unwrap();
        let message: Value = serde_json::from_str(&text).unwrap();
        assert!(message["message"].as_str().unwrap().contains(field), "{changes}: {text}");
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let keyless = client.post(server.url("/agui")).body(input(json!({})).to_string());
    assert_eq!(keyless.send().await.unwrap().status(), 401);
    server.end().await;
}

/// A model that says one thing, and what it was asked.
async fn model() -> (String, Arc<Mutex<Vec<Value>>>) {
    type Asked = Arc<Mutex<Vec<Value>>>;
    let asked = Asked::default();
    let answer = |State(asked): State<Asked>, Json(body): Json<Value>| async move {
        asked.lock().unwrap().push(body);
        let delta = json!({"choices": [{"index": 0, "delta": {"content": "So be it."}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let stream = format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
        ([("content-type", SSE)], stream)
    };
    let router =
        Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::clone(&asked));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_tool_is_left_to_it_and_the_next_run_hears_what_it_returned() {
    let place = place();
    let Some(agent) = program("mayfly-agent") else { return };
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let tools = json!([{"name": "ask", "description": "asks", "parameters": {"type": "object"}}]);
    let script = json!([{"text": "A moment.", "tool_calls": [{"name": "ask", "args": {"q": 1}}]}]);
    let model_of_first = json!({"provider": "scripted", "script": script});
    let response =
        agui(&server, json!({"tools": tools, "forwardedProps": {"model": model_of_first}})).await;
    let events = sse(&response.text().await.unwrap());
    let events: Vec<Value> = events.into_iter().map(|(_, event)| event).collect();
    let types = check(&events);
    assert!(!types.iter().any(|kind| kind == "TOOL_CALL_RESULT"), "{types:?}");
    let start = events.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
    assert_eq!(start["toolCallName"], "ask");
    let call = start["toolCallId"].clone();
    let last = events.last().unwrap();
    assert_eq!(last["outcome"], json!({"type": "success", "pendingToolCallIds": [call]}), "{last}");

    let (base_url, asked) = model().await;
    let function = json!({"name": "ask", "arguments": "{\"q\":1}"});
    let messages = json!([
        {"id": "1", "role": "user", "content": "hello"},
        {"id": "2", "role": "assistant", "content": "A moment.",
         "toolCalls": [{"id": call, "type": "function", "function": function}]},
        {"id": "3", "role": "tool", "toolCallId": call, "content": "blue"},
    ]);
    let model = json!({"provider": "openai", "name": "m", "base_url": base_url});
    let response = agui(
        &server,
        json!({"runId": "front-2", "messages": messages, "tools": tools, "forwardedProps": {"model": model}}),
    )
    .await;
    let events = sse(&response.text().await.unwrap());
    check(events.iter().map(|(_, event)| event));
    assert_eq!(events.last().unwrap().1["result"]["message"], "So be it.");
    let asked = asked.lock().unwrap().clone();
    let [request] = &asked[..] else { panic!("{asked:?}") };
    let told: Vec<&Value> = request["messages"].as_array().unwrap().iter().collect();
    let [user, assistant, tool] = &told[..] else { panic!("{told:?}") };
    assert_eq!(user["content"], "hello");
    assert_eq!(assistant["tool_calls"][0]["function"]["name"], "ask");
    assert_eq!(tool["tool_call_id"], assistant["tool_calls"][0]["id"]);
    assert_eq!(tool["content"], "blue");
    let offered = request["tools"].as_array().unwrap();
    assert!(offered.iter().any(|tool| tool["function"]["name"] == "ask"), "{offered:?}");
    server.end().await;
}
