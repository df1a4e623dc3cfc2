//! Changed files, told to those who asked for it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Json, Router, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::server::{Plan, TestServer, agent, place, run_id};

/// What a hook was told.
type Told = Arc<Mutex<Vec<Value>>>;

/// A hook on loopback; it ends with the test's runtime.
async fn hook(status: StatusCode, pause: Duration) -> (String, Told) {
    let told = Told::default();
    let kept = Arc::clone(&told);
    let router = Router::new().route(
        "/hook",
        post(async move |Json(document): Json<Value>| {
            tokio::time::sleep(pause).await;
            kept.lock().unwrap().push(document);
            status
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?key=1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, told)
}

fn events(told: &Told) -> Vec<Value> {
    let told = told.lock().unwrap();
    let events = told.iter().flat_map(|document| document["events"].as_array().unwrap().clone());
    events.collect()
}

const FILES: &str = r#"say '"type":"file","change":"create","path":"a"'
log between
say '"type":"custom","name":"sandbox.file.diff","value":{"path":"a","diff":"+x"}'
say '"type":"file","change":"delete","path":"b/c"'
result done"#;

#[tokio::test(flavor = "multi_thread")]
async fn both_hooks_are_told_of_every_file_and_a_broken_one_holds_nobody_up() {
    let place = place();
    let agent = agent(place.path(), FILES);
    let (of_run, told_of_run) = hook(StatusCode::NO_CONTENT, Duration::ZERO).await;
    let (of_server, told_of_server) = hook(StatusCode::INTERNAL_SERVER_ERROR, Duration::ZERO).await;
    let plan = Plan { file_hook: Some(of_server), ..Plan::PLAIN };
    let Some(server) = TestServer::start(place.path(), agent, plan).await else { return };
    let response = server.dispatch(json!({"fileEvents": {"webhook": of_run}})).await;
    assert_eq!(response.status(), 200);
    let id = run_id(&response);
    response.text().await.unwrap();
    let sandbox = server.info(&id).await["sandbox_id"].clone();
    // Waits for the hooks too.
    server.end().await;
    for told in [&told_of_run, &told_of_server] {
        let mut events = events(told);
        for event in &mut events {
            assert!(event["timestamp"].as_u64().unwrap() > 1_600_000_000_000, "{event}");
            event.as_object_mut().unwrap().remove("timestamp");
        }
        let expected = [
            json!({"type": "create", "path": "a"}),
            json!({"type": "diff", "path": "a", "diff": "+x"}),
            json!({"type": "delete", "path": "b/c"}),
        ];
        assert_eq!(events, expected);
        let first = told.lock().unwrap()[0].clone();
        assert_eq!((&first["run_id"], &first["sandbox_id"]), (&json!(id), &sandbox));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_never_answers_does_not_slow_the_run() {
    let place = place();
    let many = "for i in 1 2 3 4 5 6 7 8 9 10; do \
                say '\"type\":\"file\",\"change\":\"change\",\"path\":\"a\"'; done; result done";
    let agent = agent(place.path(), many);
    let (url, _told) = hook(StatusCode::OK, Duration::from_secs(600)).await;
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let began = Instant::now();
    let response = server.dispatch(json!({"fileEvents": {"webhook": url}})).await;
    assert!(response.text().await.unwrap().contains("done"));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let began = Instant::now();
    server.end().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_where_nobody_may_call_is_refused() {
    let place = place();
    let agent = agent(place.path(), "result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let url = "http://169.254.169.254/latest";
    let response = server.dispatch(json!({"fileEvents": {"webhook": url}})).await;
    assert_eq!(response.status(), 400);
    server.end().await;
}
