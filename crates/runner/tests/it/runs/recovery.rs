//! Servers that stop, in order or not, while runs go on.

use std::{path::Path, time::Duration};

use isolate::Tier;
use sandbox::Closing;
use serde_json::{Value, json};

use super::server::{Plan, TestServer, agent, check_envelope, place, run_id};

/// Starts a run on a server whose tasks then vanish, as those of a killed one do.
fn abandoned(place: &Path, plan: Plan, script: &str, changes: Value) -> Option<String> {
    let agent = agent(place, script);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // The caller's line stays open past the server's end: a hang-up would be an
    // end of another kind.
    let started = runtime.block_on(async {
        let server = TestServer::start(place, agent, plan).await?;
        let response = server.dispatch(changes).await;
        let id = run_id(&response);
        while server.info(&id).await["last_seq"].as_u64() < Some(3) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        while server.info(&id).await["state"] != "running" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Some((id, response))
    });
    runtime.shutdown_background();
    started.map(|(id, _)| id)
}

async fn end_of(place: &Path, plan: Plan, id: &str) -> Value {
    let agent = place.join("agent.sh");
    let server = TestServer::start(place, agent, plan).await.unwrap();
    let text = server.read(&format!("/runs/{id}/stream")).await;
    let last = check_envelope(&text);
    let raw = server.raw(id).await;
    let numbers = raw.iter().map(|line| line["seq"].as_u64().unwrap());
    assert!(numbers.eq(1..=raw.len() as u64), "{raw:?}");
    assert!(server.info(id).await["ended_at"].is_string());
    server.end().await;
    last
}

#[test]
fn a_run_of_a_killed_server_has_a_terminal_event_after_the_next_start() {
    let place = place();
    let script = "step 1; sleep 30";
    let Some(id) = abandoned(place.path(), Plan::PLAIN, script, json!({})) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let last = runtime.block_on(end_of(place.path(), Plan::PLAIN, &id));
    assert_eq!(last["code"], "sandbox_lost", "{last}");
}

#[test]
fn a_run_that_continues_outlives_a_killed_server() {
    let native = || Plan { tier: Tier::Native, ..Plan::PLAIN };
    let place = place();
    let script = "log before; sleep 2; log after; step 1; done_step 1; result survived";
    let changes = json!({"on_disconnect": "continue"});
    let Some(id) = abandoned(place.path(), native(), script, changes) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let last = runtime.block_on(end_of(place.path(), native(), &id));
    assert_eq!(last["message"], "survived", "{last}");
}

#[test]
fn a_run_that_ended_while_no_server_was_there_keeps_its_result() {
    let native = || Plan { tier: Tier::Native, ..Plan::PLAIN };
    let place = place();
    let script = "log before; sleep 1; result alone";
    let changes = json!({"on_disconnect": "continue"});
    let Some(id) = abandoned(place.path(), native(), script, changes) else { return };
    std::thread::sleep(Duration::from_secs(2));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let last = runtime.block_on(end_of(place.path(), native(), &id));
    assert_eq!(last["message"], "alone", "{last}");
}

async fn stopped(closing: Closing, on_disconnect: &str) -> Option<(tempfile::TempDir, String)> {
    let place = place();
    let agent = agent(place.path(), "log before; sleep 2; result later");
    let plan = Plan { tier: Tier::Native, ..Plan::PLAIN };
    let server = TestServer::start(place.path(), agent, plan).await?;
    let response = server.dispatch(json!({"on_disconnect": on_disconnect})).await;
    let id = run_id(&response);
    while server.info(&id).await["state"] != "running" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.stop(closing).await;
    Some((place, id))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restarted_leaves_runs_that_continue_and_ends_the_others() {
    for (closing, on_disconnect, expected) in [
        (Closing::Leave, "continue", "later"),
        (Closing::Leave, "cancel", "the server stopped"),
        (Closing::Destroy, "continue", "the server stopped"),
    ] {
        let Some((place, id)) = stopped(closing, on_disconnect).await else { return };
        let plan = Plan { tier: Tier::Native, ..Plan::PLAIN };
        let last = end_of(place.path(), plan, &id).await;
        assert_eq!(last["message"], expected, "{on_disconnect}");
    }
}
