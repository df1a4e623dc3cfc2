//! Turns by their routes, with a runner that the test plays.

mod double;
mod scene;
mod trouble;

use reqwest::Method;
use serde_json::{Value, json};

use double::{ENVELOPE, RAW, RUN, Runner};
use scene::{Events, Scene, read};

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn kinds(seen: &[scene::Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.kind.as_str()).collect()
}

#[tokio::test]
async fn a_turn_is_dispatched_heard_and_stored() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let events = scene.say(json!({"message": "Say\nhello"})).await;
    let mut call = runner.next().await;
    assert_eq!(call.headers["x-api-key"], "the key at the runner");
    assert_eq!(call.body["prompt"], "Say\nhello");
    assert_eq!(call.body["on_disconnect"], "cancel");
    call.entry(json!({"type": "started", "run_id": RUN, "harness": "builtin"}));
    call.entry(json!({"type": "log", "level": "info", "message": "for the trace"}));
    call.text("Hel");
    call.entry(json!({"type": "step_started", "id": "step_1", "name": "shell", "args": {}}));
    call.entry(json!({"type": "step_ended", "id": "step_1", "status": "succeeded",
                      "result": 1, "duration_ms": 2}));
    call.entry(json!({"type": "text", "message_id": "n", "delta": "Hello"}));
    call.result("Hello");
    let seen = events.rest().await;
    assert_eq!(kinds(&seen), ["turn", "text", "step", "step", "text", "done"]);
    assert!(seen.is_sorted_by(|one, next| one.id < next.id));
    let done = &seen[5].data;
    assert_eq!((&done["status"], &done["code"]), (&json!("succeeded"), &Value::Null));

    let chat = text(&seen[0].data["chatId"]);
    assert_eq!(call.body["chat_id"], chat);
    let messages = scene.messages(chat).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["content"], json!([{"type": "text", "text": "Say\nhello"}]));
    assert_eq!(messages[0]["id"], seen[0].data["userMessageId"]);
    assert_eq!(messages[1], done["message"]);
    let title = scene.get(&format!("/api/assistant/conversations/{chat}")).await["title"].clone();
    assert_eq!(title, "Say hello");

    let turn = text(&seen[0].data["turnId"]);
    let trace = scene.get(&format!("/api/assistant/turns/{turn}/trace")).await;
    let log = json!({"level": "info", "message": "for the trace"});
    assert!(trace["items"].as_array().unwrap().iter().any(|entry| entry["data"] == log));
    scene.end().await;
}

#[tokio::test]
async fn the_tokens_of_a_turn_open_its_callbacks_once_and_nothing_after_its_end() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let first = scene.say(json!({"message": "One"})).await;
    runner.next().await.result("Two");
    let chat = text(&first.rest().await[0].data["chatId"]).to_owned();

    let events = scene.say(json!({"message": "Three", "conversationId": chat})).await;
    let mut call = runner.next().await;
    let agent_url = text(&call.body["agent_url"]).to_owned();
    let callback = async |path: &str, token: &Value| {
        let request = scene.bare(&format!("{agent_url}/{path}"));
        read(request.header("authorization", text(token))).await
    };
    let (status, config) = callback("config", &call.body["otp_run"]).await;
    assert_eq!(status, 200, "{config}");
    assert_eq!((&config["caller"], &config["chat_id"]), (&json!("assistant"), &json!(chat)));
    let said = json!([{"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"}]);
    assert_eq!(config["messages"], said);
    assert_eq!((&config["tools"], &config["max_runtime_sec"]), (&json!([]), &json!(600)));
    assert_eq!(config["workspace"]["url"], format!("{}/api/workspace", scene.url));
    let skill = scene.bare(text(&config["skills"][0]["url"])).send().await.unwrap();
    assert_eq!(skill.status(), 200);
    let forged = text(&config["skills"][0]["url"]).replace("sig=", "sig=0");
    assert_eq!(read(scene.bare(&forged)).await.1["code"], "bad_signature");
    let (status, refused) = callback("config", &call.body["otp_run"]).await;
    assert_eq!((status, &refused["code"]), (401, &json!("otp_used")));
    let (_, refused) = callback("env", &call.body["otp_upload"]).await;
    assert_eq!(refused["code"], "otp_unknown");

    let bearer = format!("Bearer {}", text(&config["workspace"]["bearer"]));
    let tables = format!("{}/api/workspace/tables", scene.url);
    let table = |bearer: &str| scene.bare(&tables).header("authorization", bearer.to_owned());
    assert_eq!(read(table(&bearer)).await.0, 200);
    call.result("Four");
    events.rest().await;
    assert_eq!(read(table(&bearer)).await.0, 401);
    let (_, refused) = callback("env", &call.body["otp_setup"]).await;
    assert_eq!(refused["code"], "otp_expired");
    scene.end().await;
}

#[tokio::test]
async fn the_message_is_there_when_the_end_is_heard() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    for number in 0..20 {
        let answer = format!("answer {number}");
        let mut events = scene.say(json!({"message": "?"})).await;
        runner.next().await.result(&answer);
        let chat = events.until("turn").await.data["chatId"].clone();
        events.until("done").await;
        let messages = scene.messages(text(&chat)).await;
        assert_eq!(messages[1]["content"][0]["text"], answer);
    }
    scene.end().await;
}

#[tokio::test]
async fn the_envelope_is_enough() {
    let mut runner = Runner::start(ENVELOPE).await;
    let scene = Scene::start(&runner.url).await;
    let events = scene.say(json!({"message": "?"})).await;
    let call = runner.next().await;
    call.send("{\"type\":\"log\",\"level\":\"info\",\"message\":\"x\"}\n");
    call.send(
        "{\"type\":\"step\",\"id\":\"step_1\",\"name\":\"s\",\"status\":\"running\",\"args\":1}\n",
    );
    call.send("{\"type\":\"result\",\"message\":\"plainly\"}\n");
    let seen = events.rest().await;
    assert_eq!(kinds(&seen), ["turn", "step", "done"]);
    let content = &seen[2].data["message"]["content"];
    assert_eq!(content[1], json!({"type": "text", "text": "plainly"}));
    scene.end().await;
}

#[tokio::test]
async fn a_reader_goes_on_where_it_was() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let (status, begun) = scene.begin(json!({"message": "?"})).await;
    assert_eq!(status, 202, "{begun}");
    let url = text(&begun["streamUrl"]);
    let mut events = Events::new(scene.bare(url).send().await.unwrap());
    let mut call = runner.next().await;
    call.text("a");
    let last = events.until("text").await.id;
    // Another reader keeps the turn alive over the first one's absence.
    let other = Events::new(scene.follow(text(&begun["turnId"]), None).await);
    drop(events);
    call.entry(json!({"type": "log", "level": "info", "message": "not for readers"}));
    call.text("b");
    call.result("ab");
    let whole = other.rest().await;
    for seen in &whole {
        let again = scene.follow(text(&begun["turnId"]), Some(seen.id)).await;
        if seen.kind == "done" {
            assert_eq!(again.status(), 204);
        } else {
            let rest = Events::new(again).rest().await;
            let expected: Vec<_> = whole.iter().filter(|one| one.id > seen.id).cloned().collect();
            assert_eq!(rest, expected);
        }
    }
    let again = scene.bare(url).header("last-event-id", last).send().await.unwrap();
    assert_eq!(Events::new(again).rest().await.last().unwrap().kind, "done");
    // One who comes late by the address hears all; one who names no event, that
    // there is nothing more.
    let late = scene.bare(url).send().await.unwrap();
    assert_eq!(late.headers()["access-control-allow-origin"], "*");
    assert_eq!(Events::new(late).rest().await, whole);
    assert_eq!(scene.bare(&url.replace("&after=0", "")).send().await.unwrap().status(), 204);
    for (forged, code) in [
        (url.replace("sig=", "sig=0"), "bad_signature"),
        (url.replace("workspace=red", "workspace=blue"), "bad_signature"),
        (url.replace("exp=", "exp=1"), "bad_signature"),
    ] {
        let (status, refused) = read(scene.bare(&forged)).await;
        assert_eq!((status, text(&refused["code"])), (403, code));
    }
    scene.end().await;
}

#[tokio::test]
async fn a_turn_that_nobody_listens_to_is_cancelled_down_to_its_run() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let mut events = scene.say(json!({"message": "?"})).await;
    let turn = events.until("turn").await.data["turnId"].clone();
    let call = runner.next().await;
    drop(events);
    call.hung_up().await;
    let ended = scene.ended(text(&turn)).await;
    assert_eq!((text(&ended["state"]), text(&ended["code"])), ("failed", "cancelled"));
    scene.end().await;
}

#[tokio::test]
async fn a_turn_that_continues_outlives_its_listeners_and_a_broken_stream() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let mut events = scene.say(json!({"message": "?", "onDisconnect": "continue"})).await;
    let turn = events.until("turn").await.data["turnId"].clone();
    let mut call = runner.next().await;
    assert_eq!(call.body["on_disconnect"], "continue");
    call.text("a");
    events.until("text").await;
    drop(events);
    call.break_off();
    let mut call = runner.next().await.from(1);
    assert_eq!(call.query, "after=1");
    call.text("b");
    call.result("ab");
    let ended = scene.ended(text(&turn)).await;
    assert_eq!((text(&ended["state"]), text(&ended["runId"])), ("succeeded", RUN));
    let messages = scene.messages(text(&ended["conversationId"])).await;
    assert_eq!(messages[1]["content"], json!([{"type": "text", "text": "ab"}]));
    assert!(runner.cancelled().is_empty());
    scene.end().await;
}

#[tokio::test]
async fn cancelling_ends_a_turn_at_once_and_a_continuing_run_by_name() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let (_, begun) = scene.begin(json!({"message": "?", "onDisconnect": "continue"})).await;
    let mut call = runner.next().await;
    call.text("a");
    let mut events = Events::new(scene.follow(text(&begun["turnId"]), None).await);
    events.until("text").await;
    let path = format!("/api/assistant/turns/{}/cancel", text(&begun["turnId"]));
    for _ in 0..2 {
        let (status, ended) = read(scene.ask(Method::POST, &path)).await;
        assert_eq!((status, text(&ended["code"])), (200, "cancelled"));
    }
    assert_eq!(events.until("done").await.data["code"], "cancelled");
    call.hung_up().await;
    scene.workspace.close().await;
    assert_eq!(runner.cancelled(), [RUN]);
    scene.end().await;
}

#[tokio::test]
async fn a_conversation_has_one_turn_at_a_time() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let chat = scene.conversation().await;
    let body = json!({"message": "?", "conversationId": chat, "onDisconnect": "continue"});
    let (_, begun) = scene.begin(body.clone()).await;
    let (status, refused) = scene.begin(body.clone()).await;
    assert_eq!((status, text(&refused["code"])), (409, "turn_running"));
    assert!(text(&refused["message"]).contains(text(&begun["turnId"])), "{refused}");
    runner.next().await.result("!");
    scene.ended(text(&begun["turnId"])).await;
    assert_eq!(scene.begin(body).await.0, 202);
    // Deleting it cancels the turn that runs.
    let call = runner.next().await;
    let path = format!("/api/assistant/conversations/{chat}");
    assert_eq!(read(scene.ask(Method::DELETE, &path)).await.0, 204);
    call.hung_up().await;
    assert_eq!(read(scene.ask(Method::GET, &path)).await.0, 404);
    scene.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_message_is_named() {
    let runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let chat = scene.conversation().await;
    let check = async |body: Value, status: u16, field: &str| {
        let (answered, refused) = scene.begin(body).await;
        assert_eq!((answered, text(&refused["field"])), (status, field), "{refused}");
    };
    check(json!({"message": " "}), 400, "message").await;
    check(json!({"message": "?", "more": 1}), 400, "more").await;
    check(json!({"message": "?", "onDisconnect": "dance"}), 400, "onDisconnect").await;
    check(json!({"message": "?", "conversationId": "chat_1"}), 404, "conversationId").await;
    let file = "file_000000000000000000000000";
    let attached = json!({"message": "?", "conversationId": chat, "attachmentIds": [file]});
    check(attached, 400, "attachmentIds[0]").await;
    check(json!({"message": "?", "attachmentIds": ["x"]}), 400, "attachmentIds[0]").await;
    scene.end().await;
}

/// Runs a turn with what `play` makes the runner do; its terminating event.
async fn failing(play: impl FnOnce(double::Call)) -> Value {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let events = scene.say(json!({"message": "?"})).await;
    play(runner.next().await);
    let seen = events.rest().await;
    let done = seen.last().unwrap().data.clone();
    let messages = scene.messages(text(&seen[0].data["chatId"])).await;
    assert_eq!(messages[1], done["message"]);
    scene.end().await;
    done
}

#[tokio::test]
async fn a_line_that_is_not_understood_ends_the_turn() {
    let done = failing(|mut call| {
        call.text("so far");
        call.entry(json!({"type": "dance"}));
        call.result("never");
    })
    .await;
    assert_eq!((text(&done["status"]), text(&done["code"])), ("failed", "internal"));
    assert!(text(&done["error"]).contains("dance"), "{done}");
    assert_eq!(done["message"]["content"][0]["text"], "so far");
    assert_eq!(done["message"]["content"][1]["type"], "error");
}

#[tokio::test]
async fn a_runner_that_goes_away_ends_the_turn() {
    for end in [double::Call::break_off as fn(double::Call), drop] {
        let done = failing(move |call| {
            call.send("{\"seq\":1,\"ts\":1,\"ty");
            end(call);
        })
        .await;
        assert_eq!(text(&done["code"]), "sandbox_lost", "{done}");
    }
    let done = failing(drop).await;
    assert_eq!(text(&done["code"]), "sandbox_lost", "{done}");
}

#[tokio::test]
async fn a_runner_that_is_not_there_is_named_with_what_to_do() {
    let scene = Scene::start("http://127.0.0.1:9").await;
    let seen = scene.say(json!({"message": "?"})).await.rest().await;
    assert_eq!(kinds(&seen), ["turn", "done"]);
    assert!(text(&seen[1].data["error"]).contains("SANDBOX_URL"), "{:?}", seen[1]);
    scene.end().await;
}

#[tokio::test]
async fn the_next_server_goes_on_with_what_continues() {
    let mut runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let (_, going) = scene.begin(json!({"message": "?", "onDisconnect": "continue"})).await;
    let mut call = runner.next().await;
    call.entry(json!({"type": "step_started", "id": "step_1", "name": "shell", "args": {}}));
    let mut events = Events::new(scene.follow(text(&going["turnId"]), None).await);
    events.until("step").await;
    let mut other = scene.say(json!({"message": "?"})).await;
    other.until("turn").await;
    runner.next().await;
    let data = scene.end().await;
    assert_eq!(other.until("done").await.data["code"], "cancelled");
    assert_eq!(events.next().await, None, "it is left without an end");
    call.hung_up().await;

    let scene = Scene::on(data, &runner.url).await;
    scene.workspace.take_up().await;
    let mut call = runner.next().await.from(1);
    assert_eq!(call.query, "after=1");
    call.entry(json!({"type": "step_ended", "id": "step_1", "status": "succeeded",
                      "result": 1, "duration_ms": 2}));
    call.result("done");
    let ended = scene.ended(text(&going["turnId"])).await;
    assert_eq!(text(&ended["state"]), "succeeded");
    let content = scene.messages(text(&ended["conversationId"])).await[1]["content"].clone();
    assert_eq!((text(&content[0]["name"]), text(&content[0]["status"])), ("shell", "succeeded"));
    scene.end().await;
}

#[tokio::test]
async fn the_next_server_ends_what_a_crash_left_open() {
    let runner = Runner::start(RAW).await;
    let scene = Scene::start(&runner.url).await;
    let chat = scene.conversation().await;
    let turn = scene.leave_open(&chat).await;
    let busy = scene.begin(json!({"message": "?", "conversationId": chat})).await;
    assert_eq!(busy.0, 409);
    scene.workspace.take_up().await;
    let ended = scene.ended(&turn).await;
    assert_eq!((text(&ended["state"]), text(&ended["code"])), ("failed", "sandbox_lost"));
    let seen = Events::new(scene.follow(&turn, Some(0)).await).rest().await;
    assert_eq!(seen.last().unwrap().kind, "done");
    assert_eq!(scene.messages(&chat).await[1], seen.last().unwrap().data["message"]);
    scene.end().await;
}
