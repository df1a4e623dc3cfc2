//! What is refused before anything is started.

use serde_json::{Value, json};

use super::server::{Plan, TestServer, agent, place, run_id};

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_dispatched_is_refused_by_the_name_of_its_field() {
    let place = place();
    let agent = agent(place.path(), "result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    for (changes, field) in [
        (json!({"prompt": ""}), "`prompt`"),
        (json!({"config": null}), "`agent_url`"),
        (json!({"config": 7}), "`config`"),
        (json!({"agent_url": "http://127.0.0.1/"}), "`agent_url` and `config`"),
        (json!({"config": null, "agent_url": "nowhere"}), "`agent_url`"),
        (
            json!({"config": null, "agent_url": "http://169.254.169.254/", "otp_setup": "a",
                   "otp_run": "b"}),
            "`agent_url`",
        ),
        (json!({"template": "nobody"}), "`template`"),
        (json!({"harness": "gemini"}), "`harness`"),
        (json!({"harness": "codex"}), "`config.model.provider`"),
        (json!({"tools": [{}]}), "`tools[0].name`"),
        (json!({"tools": [{"name": "a", "url": "http://169.254.169.254/"}]}), "`tools`"),
        (json!({"fileEvents": {"webhook": "http://169.254.169.254/"}}), "`file_events.webhook`"),
    ] {
        let response = server.dispatch(changes.clone()).await;
        assert_eq!(response.status(), 400, "{changes}");
        let text = response.text().await.unwrap();
        let message: Value = serde_json::from_str(&text).unwrap();
        assert!(message["message"].as_str().unwrap().contains(field), "{changes}: {text}");
    }
    assert_eq!(server.read("/runs").await, r#"{"runs":[],"next_cursor":null}"#);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_needs_no_template_where_there_are_none() {
    let place = place();
    let agent = agent(place.path(), "result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let config = json!({"model": {"provider": "anthropic", "name": "m"}});
    let response = server.dispatch(json!({"harness": "claude-code", "config": config})).await;
    assert_eq!(response.status(), 200);
    assert!(response.text().await.unwrap().contains("done"));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_says_so_before_anything_starts() {
    let place = place();
    let agent = agent(place.path(), "sleep 30");
    let plan = Plan { max_sandboxes: 1, ..Plan::PLAIN };
    let Some(server) = TestServer::start(place.path(), agent, plan).await else { return };
    let first = server.dispatch(json!({})).await;
    assert_eq!(first.status(), 200);
    assert_eq!(server.dispatch(json!({})).await.status(), 429);
    let id = run_id(&first);
    server.post(&format!("/runs/{id}/cancel"), &json!({})).send().await.unwrap();
    drop(first);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sees_its_own_runs_only_and_no_key_sees_none() {
    let place = place();
    let agent = agent(place.path(), "result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let response = server.dispatch(json!({})).await;
    let id = run_id(&response);
    response.text().await.unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let paths = ["", "/stream", "/files/stream.jsonl", "/files/result.json"];
    for path in paths {
        let url = server.url(&format!("/runs/{id}{path}"));
        let other = client.get(&url).header("x-api-key", "blue").send().await.unwrap();
        assert_eq!(other.status(), 404, "{path}");
        assert_eq!(client.get(&url).send().await.unwrap().status(), 401, "{path}");
    }
    let cancel = client.post(server.url(&format!("/runs/{id}/cancel")));
    assert_eq!(cancel.header("x-api-key", "blue").send().await.unwrap().status(), 404);
    assert_eq!(client.post(server.url("/stream")).send().await.unwrap().status(), 401);
    let listed = client.get(server.url("/runs")).header("x-api-key", "blue").send().await.unwrap();
    assert_eq!(listed.text().await.unwrap(), r#"{"runs":[],"next_cursor":null}"#);
    server.end().await;
}
