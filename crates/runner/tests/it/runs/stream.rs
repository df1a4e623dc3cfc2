//! A run from its dispatch to its end.

use std::time::Duration;

use isolate::Tier;
use serde_json::{Value, json};

use super::server::{Plan, RAW, TestServer, agent, check_envelope, json_lines, place, run_id};

const TWO_STEPS: &str = "log begin; step 1; done_step 1; step 2; done_step 2; result done";

async fn whole_run(plan: Plan) {
    let place = place();
    let agent = agent(place.path(), TWO_STEPS);
    let Some(server) = TestServer::start(place.path(), agent, plan).await else { return };
    let response = server.dispatch(json!({})).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let id = run_id(&response);
    let text = response.text().await.unwrap();
    assert_eq!(check_envelope(&text)["message"], "done");
    let kinds: Vec<Value> = json_lines(&text).iter().map(|line| line["type"].clone()).collect();
    assert_eq!(kinds, ["log", "log", "step", "step", "step", "step", "result"]);
    assert_eq!(server.sandboxes.count(), 0, "the sandbox outlived its run");
    let info = server.info(&id).await;
    assert_eq!((&info["state"], &info["code"]), (&json!("succeeded"), &Value::Null));
    assert_eq!(info["last_seq"], 8);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_streams_from_its_first_line_to_its_result() {
    whole_run(Plan::PLAIN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_behind_walls_streams_from_its_first_line_to_its_result() {
    whole_run(Plan { tier: Tier::Native, ..Plan::PLAIN }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_comes_before_the_agent_says_anything() {
    let place = place();
    let agent = agent(place.path(), "sleep 30");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let mut response = server.dispatch(json!({})).await;
    let first = response.chunk().await.unwrap().unwrap();
    let first: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(first["type"], "log");
    let id = run_id(&response);
    let cancelled = server.post(&format!("/runs/{id}/cancel"), &json!({})).send().await.unwrap();
    let cancelled: Value = serde_json::from_str(&cancelled.text().await.unwrap()).unwrap();
    assert_eq!((&cancelled["state"], &cancelled["code"]), (&json!("failed"), &json!("cancelled")));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_raw_log_has_numbers_and_what_the_envelope_leaves_out() {
    let place = place();
    let say = r#"say '"type":"text","message_id":"m","delta":"hel"'; result hello"#;
    let agent = agent(place.path(), say);
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let body = super::server::inline(json!({}));
    let request = server.post("/stream", &body).header("accept", RAW);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], RAW);
    let lines = json_lines(&response.text().await.unwrap());
    let kinds: Vec<&Value> = lines.iter().map(|line| &line["type"]).collect();
    assert_eq!(kinds, ["started", "log", "text", "result"]);
    let numbers: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_runs_at_once_have_whole_and_ordered_logs() {
    let place = place();
    let agent = agent(place.path(), &format!("for i in 1 2 3 4 5; do log $i; done; {TWO_STEPS}"));
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let runs = (0..20).map(|_| async {
        let response = server.dispatch(json!({})).await;
        assert_eq!(response.status(), 200);
        let id = run_id(&response);
        (id, response.text().await.unwrap())
    });
    for (id, text) in futures_util::future::join_all(runs).await {
        assert_eq!(check_envelope(&text)["message"], "done");
        let raw = server.raw(&id).await;
        let numbers = raw.iter().map(|line| line["seq"].as_u64().unwrap());
        assert!(numbers.eq(1..=raw.len() as u64), "{id}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_does_not_slow_the_run() {
    let place = place();
    let script = "line=$(head -c 30000 /dev/zero | tr '\\0' x)\n\
        i=0; while [ $i -lt 400 ]; do log $line; i=$((i+1)); done; result done";
    let agent = agent(place.path(), script);
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    // Nobody reads this one until the run is over.
    let response = server.dispatch(json!({})).await;
    let id = run_id(&response);
    let finished = async {
        while server.info(&id).await["state"] != "succeeded" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), finished).await.unwrap();
    let text = response.text().await.unwrap();
    assert_eq!(check_envelope(&text)["message"], "done");
    assert!(text.len() > 400 * 30_000);
    server.end().await;
}
