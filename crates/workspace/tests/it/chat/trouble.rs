//! Turns that meet trouble: hostile runners, lost answers, races with a deletion.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use store::StreamEvent;
use tokio::{task::JoinSet, time::timeout};

use super::{
    double::{RAW, Runner},
    scene::{Scene, read},
    text,
};

#[tokio::test]
async fn a_step_of_many_levels_leaves_the_conversation_readable() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let events = scene.say(json!({"message": "?"})).await;
    // As deep as a line may be.
    let deep = (0..126).fold(Value::Null, |value, _| json!([value]));
    let mut call = runner.next().await;
    call.entry(json!({"type": "step_started", "id": "step_1", "name": "shell", "args": deep}));
    call.result("done");
    let seen = events.rest().await;
    let done = &seen.last().unwrap().data;
    let messages = scene.messages(text(&seen[0].data["chatId"])).await;
    assert_eq!(messages[1], done["message"]);
    assert_eq!(messages[1]["content"][0]["args"], json!({"truncated": true}));
    scene.end().await;
}

#[tokio::test]
async fn a_turn_ends_although_the_number_of_its_end_is_taken() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let mut events = scene.say(json!({"message": "?"})).await;
    let turn = events.until("turn").await;
    // As a write leaves it whose answer was lost for good.
    let lost = StreamEvent {
        seq: turn.id + 1,
        kind: "text".to_owned(),
        data: r#"{"messageId":"m","delta":"a"}"#.to_owned(),
        upstream: None,
    };
    scene.store.append_events(text(&turn.data["turnId"]), &[lost]).await.unwrap();
    runner.next().await.result("done");
    let done = events.until("done").await;
    assert_eq!((done.id, text(&done.data["status"])), (turn.id + 2, "succeeded"));
    scene.end().await;
}

#[tokio::test]
async fn a_conversation_is_deleted_whoever_tries_to_begin_a_turn_in_it() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    for _ in 0..20 {
        let chat = scene.conversation().await;
        let said = json!({"message": "?", "conversationId": chat});
        let events = scene.say(said.clone()).await;
        let call = runner.next().await;
        let mut tries = JoinSet::new();
        for _ in 0..8 {
            let path = "/api/assistant/chat/stream";
            let request = scene.ask(Method::POST, path).header("content-type", "application/json");
            tries.spawn(read(request.body(said.to_string())));
        }
        let deletion = scene.ask(Method::DELETE, &format!("/api/assistant/conversations/{chat}"));
        let (status, _) = timeout(Duration::from_secs(10), read(deletion)).await.unwrap();
        assert_eq!(status, 204);
        call.hung_up().await;
        assert_eq!(events.rest().await.last().unwrap().data["code"], "cancelled");
        tries.join_all().await;
    }
    scene.end().await;
}
