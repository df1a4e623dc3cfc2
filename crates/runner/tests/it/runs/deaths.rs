//! Agents that die, each in its own way, and what their log says then.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Plan, TestServer, agent, check_envelope, place};

async fn last_line(script: &str, plan: Plan, changes: Value) -> Option<Value> {
    let place = place();
    let agent = agent(place.path(), script);
    let server = TestServer::start(place.path(), agent, plan).await?;
    let text = server.dispatch(changes).await.text().await.unwrap();
    let last = check_envelope(&text);
    server.end().await;
    Some(last)
}

async fn check(script: &str, plan: Plan, changes: Value, code: &str, message: &str) {
    let Some(last) = last_line(script, plan, changes).await else { return };
    assert_eq!(last["code"], code, "{last}");
    assert!(last["message"].as_str().unwrap().contains(message), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_exits_is_explained_by_its_complaints() {
    let script = "step 1; echo 'no such luck' >&2; exit 3";
    let message = "the agent ended with exit status 3: no such luck";
    check(script, Plan::PLAIN, json!({}), "internal", message).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_is_explained_by_the_signal() {
    check("kill -9 $$", Plan::PLAIN, json!({}), "internal", "signal: killed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_in_silence_did_not_succeed() {
    check("exit 0", Plan::PLAIN, json!({}), "internal", "exit status 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_read_its_task_can_still_be_ended() {
    let place = place();
    let path = agent(place.path(), "");
    std::fs::write(&path, "#!/bin/sh\nexec sleep 30\n").unwrap();
    let plan = Plan { max_runtime: Duration::from_secs(1), ..Plan::PLAIN };
    let Some(server) = TestServer::start(place.path(), path, plan).await else { return };
    let long = json!({"prompt": "x".repeat(1 << 20)});
    let text = server.dispatch(long).await.text().await.unwrap();
    assert_eq!(check_envelope(&text)["code"], "runtime_exceeded");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_at_the_cap_of_the_server() {
    let plan = Plan { max_runtime: Duration::from_secs(1), ..Plan::PLAIN };
    let changes = json!({"limits": {"max_runtime_sec": 900}});
    check("sleep 30", plan, changes, "runtime_exceeded", "longer than 1 s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_at_the_cap_of_its_caller() {
    let changes = json!({"limits": {"max_runtime_sec": 1}});
    check("sleep 30", Plan::PLAIN, changes, "runtime_exceeded", "longer than 1 s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_is_killed_is_said_to_be_lost() {
    let place = place();
    let agent = agent(place.path(), "sleep 30");
    let Some(server) = TestServer::start(place.path(), agent, Plan::PLAIN).await else { return };
    let response = server.dispatch(json!({})).await;
    for sandbox in server.sandboxes.list("red") {
        sandbox.kill().await;
    }
    let last = check_envelope(&response.text().await.unwrap());
    assert_eq!(last["code"], "sandbox_lost", "{last}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_from_an_agent_is_refused_and_the_run_goes_on() {
    let script = "echo garbage; head -c 5000000 /dev/zero | tr '\\0' x; echo; result done";
    let Some(last) = last_line(script, Plan::PLAIN, json!({})).await else { return };
    assert_eq!(last["message"], "done");
}
