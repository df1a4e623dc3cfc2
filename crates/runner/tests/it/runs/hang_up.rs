//! What a caller's hang-up means.

use std::time::{Duration, Instant};

use serde_json::json;

use super::server::{Plan, TestServer, agent, check_envelope, place, run_id};

#[tokio::test(flavor = "multi_thread")]
async fn hanging_up_ends_the_run_and_its_sandbox_within_a_second() {
    let place = place();
    let agent = agent(place.path(), "step 1; sleep 30; result never");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let mut response = server.dispatch(json!({})).await;
    let id = run_id(&response);
    // Until the step has begun.
    let mut seen = Vec::new();
    while !seen.windows(4).any(|window| window == b"step") {
        seen.extend(response.chunk().await.unwrap().unwrap());
    }
    drop(response);
    let hung_up = Instant::now();
    while server.sandboxes.count() > 0 {
        assert!(hung_up.elapsed() < Duration::from_secs(1), "the sandbox is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let text = server.read(&format!("/runs/{id}/stream")).await;
    let last = check_envelope(&text);
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("cancelled")));
    assert!(text.contains("interrupted"), "{text}");
    assert_eq!(server.info(&id).await["code"], "cancelled");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_continues_does_not_mind_a_hang_up() {
    let place = place();
    let agent = agent(place.path(), "sleep 1; result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let response = server.dispatch(json!({"on_disconnect": "continue"})).await;
    let id = run_id(&response);
    drop(response);
    let text = server.read(&format!("/runs/{id}/stream")).await;
    assert_eq!(check_envelope(&text)["message"], "done");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_not_the_caller_may_come_and_go() {
    let place = place();
    let agent = agent(place.path(), "sleep 1; result done");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let response = server.dispatch(json!({})).await;
    let id = run_id(&response);
    for _ in 0..3 {
        drop(server.get(&format!("/runs/{id}/stream")).send().await.unwrap());
    }
    assert_eq!(check_envelope(&response.text().await.unwrap())["message"], "done");
    server.end().await;
}
