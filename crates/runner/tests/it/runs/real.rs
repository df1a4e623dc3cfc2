//! The real agent, from its bootstrap to its writeback, against a workspace made
//! for the test.

use std::sync::{Arc, Mutex};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::HeaderMap,
    routing::{get, post},
};
use isolate::Tier;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::server::{Plan, TestServer, check_envelope, place, program};

/// What the workspace was asked, in order, with the token of each.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

async fn workspace() -> (String, Asked) {
    let asked = Asked::default();
    let note = |asked: &Asked, what: &str, headers: &HeaderMap| {
        let token = headers["authorization"].to_str().unwrap().to_owned();
        asked.lock().unwrap().push((what.to_owned(), token));
    };
    let router = Router::new()
        .route(
            "/api/env",
            get(move |State(asked): State<Asked>, headers: HeaderMap| async move {
                note(&asked, "env", &headers);
                Json(json!({"variables": {"GREETING": "hello"}, "setup_script": "echo set up"}))
            }),
        )
        .route(
            "/api/config",
            get(move |State(asked): State<Asked>, headers: HeaderMap| async move {
                note(&asked, "config", &headers);
                Json(json!({"system_prompt": "be brief"}))
            }),
        )
        .route(
            "/api/results",
            post(move |State(asked): State<Asked>, headers: HeaderMap, body: Bytes| async move {
                note(&asked, "results", &headers);
                assert!(body.windows(5).any(|window| window == b"hello"));
                Json(json!({"files": [{
                    "id": "f1", "name": "note.txt", "mimeType": "text/plain", "size": 6,
                    "sha256": "0".repeat(64), "storageKey": "k",
                }]}))
            }),
        )
        .with_state(Arc::clone(&asked));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, asked)
}

async fn whole_run(tier: Tier) {
    let place = place();
    let Some(agent) = program("mayfly-agent") else { return };
    let plan = Plan { tier, ..Plan::PLAIN };
    let Some(server) = TestServer::start(place.path(), agent, plan).await else { return };
    let (agent_url, asked) = workspace().await;
    let prompt = "Do this:\n```sh\nmkdir -p assets && echo $GREETING > assets/note.txt\n```\n";
    let body: Value = json!({
        "agent_url": agent_url, "otp_setup": "otp_1", "otp_run": "otp_2", "otp_upload": "otp_3",
        "prompt": prompt,
    });
    let response = server.post("/stream", &body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let text = response.text().await.unwrap();
    let last = check_envelope(&text);
    assert_eq!(last["type"], "result", "{text}");
    assert!(text.contains("set up"), "{text}");
    let asked = asked.lock().unwrap().clone();
    let expected = [("env", "otp_1"), ("config", "otp_2"), ("results", "otp_3")];
    assert_eq!(asked, expected.map(|(what, token)| (what.to_owned(), token.to_owned())));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_agent_calls_back_in_order_and_writes_back() {
    whole_run(Tier::Process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_agent_does_so_behind_walls_without_a_network() {
    whole_run(Tier::Native).await;
}
