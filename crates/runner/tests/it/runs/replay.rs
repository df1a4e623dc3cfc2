//! Reading a log again: from any number on, and as files.

use serde_json::{Value, json};

use super::server::{Plan, RAW, TestServer, agent, json_lines, place, run_id};

#[tokio::test(flavor = "multi_thread")]
async fn a_log_read_from_any_number_on_is_the_rest_of_the_whole() {
    let place = place();
    let script = "log a; step 1; log b; step 2; done_step 2; done_step 1; result done";
    let agent = agent(place.path(), script);
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let response = server.dispatch(json!({})).await;
    let id = run_id(&response);
    let envelope: Vec<String> = response.text().await.unwrap().lines().map(str::to_owned).collect();
    let path = format!("/runs/{id}/stream");
    let raw = server.get(&path).header("accept", RAW).send().await.unwrap().text().await.unwrap();
    let raw: Vec<&str> = raw.lines().collect();
    for after in 0..=raw.len() {
        let query = format!("{path}?after={after}");
        let seen = server.get(&query).header("accept", RAW).send().await.unwrap();
        let seen = seen.text().await.unwrap();
        assert_eq!(seen.lines().collect::<Vec<_>>(), raw[after..], "raw after {after}");
        // The run's start is in the log and not in the envelope.
        let expected = &envelope[after.saturating_sub(1).min(envelope.len())..];
        assert_eq!(server.read(&query).await.lines().collect::<Vec<_>>(), expected);
        let by_header = server.get(&path).header("last-event-id", after.to_string());
        let by_header = by_header.send().await.unwrap().text().await.unwrap();
        assert_eq!(by_header.lines().collect::<Vec<_>>(), expected);
    }
    let wrong = server.get(&path).header("last-event-id", "x").send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ended_is_archived_as_three_files() {
    let place = place();
    let agent = agent(place.path(), "step 1; done_step 1; step 2; result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let response = server.dispatch(json!({})).await;
    let id = run_id(&response);
    response.text().await.unwrap();
    let files = format!("/runs/{id}/files");
    let log = json_lines(&server.read(&format!("{files}/stream.jsonl")).await);
    assert_eq!(log, server.raw(&id).await);
    let steps: Value =
        serde_json::from_str(&server.read(&format!("{files}/steps.json")).await).unwrap();
    let seen = |at: usize| (steps[at]["id"].clone(), steps[at]["status"].clone());
    assert_eq!(seen(0), (json!("step_1"), json!("succeeded")));
    assert_eq!(seen(1), (json!("step_2"), json!("failed")));
    let result: Value =
        serde_json::from_str(&server.read(&format!("{files}/result.json")).await).unwrap();
    assert_eq!(result["end"], json!({"type": "result", "message": "done"}));
    assert_eq!((&result["runId"], &result["steps"]), (&json!(id), &json!(2)));
    for unknown in ["link.sealed", "..%2Fmayfly.db", "x"] {
        let response = server.get(&format!("{files}/{unknown}")).send().await.unwrap();
        assert_eq!(response.status(), 404, "{unknown}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_newest_first_by_pages() {
    let place = place();
    let agent = agent(place.path(), "result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let mut ids = Vec::new();
    for _ in 0..3 {
        let response = server.dispatch(json!({"prompt": "say hello"})).await;
        ids.push(run_id(&response));
        response.text().await.unwrap();
    }
    ids.reverse();
    let page = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
    let first = page(server.read("/runs?limit=2").await);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = page(server.read(&format!("/runs?limit=2&cursor={cursor}")).await);
    assert_eq!(second["next_cursor"], Value::Null);
    let listed = first["runs"].as_array().unwrap().iter().chain(second["runs"].as_array().unwrap());
    let listed: Vec<&str> = listed.map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(listed, ids);
    assert_eq!(first["runs"][0]["prompt"], "say hello");
    for wrong in ["/runs?limit=0", "/runs?limit=201", "/runs?cursor=x"] {
        assert_eq!(server.get(wrong).send().await.unwrap().status(), 400, "{wrong}");
    }
    server.end().await;
}
