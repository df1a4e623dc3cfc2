//! The caller's tools in our own loop: offered to the model, asked of the host,
//! and no step told of them.

use serde_json::{Value, json};

use crate::scene::{Played, Reply, Scene, events, refusal};

/// The host's answer to a call.
fn outcome(outcome: Value) -> Reply {
    answer(json!({"jsonrpc": "2.0", "id": 1, "result": {"_meta": {"mayfly/outcome": outcome}}}))
}

fn answer(body: Value) -> Reply {
    refusal("200 OK", "", &body)
}

/// A run of a script with these tools, whose host answers so.
fn play(script: Value, tools: Value, replies: Vec<Reply>) -> Played {
    let mut scene = Scene::new(json!({"provider": "scripted", "script": script}), replies);
    scene.config["tools"] = tools;
    scene.play()
}

fn look() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!([{"name": "look", "description": "Looks.", "parameters": parameters}])
}

fn calling(name: &str) -> Value {
    json!([
        {"text": "I look.", "tool_calls": [{"name": name, "args": {"city": "Bern"}}]},
        {"text": "Seen."},
    ])
}

#[test]
fn a_call_goes_to_the_host_which_books_it() {
    let reply = outcome(json!({"status": "succeeded", "result": {"sun": true}}));
    let played = play(calling("look"), look(), vec![reply]);
    assert_eq!(played.result(), "Seen.");
    assert!(played.of("step_started").is_empty() && played.of("step_ended").is_empty());
    let asked = &played.asked[0];
    assert!(asked.head.starts_with("POST /tools HTTP/1.1"), "{}", asked.head);
    assert!(asked.head.to_lowercase().contains("authorization: bearer bearer_secret"));
    assert_eq!(asked.body["method"], "tools/call");
    let params = &asked.body["params"];
    assert_eq!((&params["name"], &params["arguments"]), (&json!("look"), &json!({"city": "Bern"})));
    // What was said before is known to come before.
    let said = played.lines.iter().position(|line| line["delta"] == "Seen.").unwrap();
    assert_eq!(params["_meta"]["mayfly/line"], said);
}

#[test]
fn the_model_reads_what_the_host_says() {
    let check = |reply: Reply, expected: &str| {
        let tool = "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\
                    \"function\":{\"name\":\"look\",\"arguments\":\"{}\"}}]},\
                    \"finish_reason\":\"tool_calls\"}]}";
        let done = "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Done.\"},\
                    \"finish_reason\":\"stop\"}]}";
        let replies = vec![events(&[tool, "[DONE]"]), reply, events(&[done, "[DONE]"])];
        let mut scene = Scene::new(json!({"provider": "openai", "name": "m"}), replies);
        scene.config["tools"] = look();
        let played = scene.play();
        assert_eq!(played.result(), "Done.");
        let offered = played.asked[0].body["tools"].as_array().unwrap().clone();
        let look = offered.iter().find(|tool| tool["function"]["name"] == "look").unwrap();
        assert_eq!(look["function"]["description"], "Looks.");
        let told = played.asked[2].body["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&told["role"], &told["content"]), (&json!("tool"), &json!(expected)));
    };
    check(outcome(json!({"status": "succeeded", "result": "plain"})), "plain");
    check(outcome(json!({"status": "succeeded", "result": [1]})), "[1]");
    check(outcome(json!({"status": "failed", "error": "no luck"})), "error: no luck");
    let wrong = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}});
    check(answer(wrong), "error: the host refused the call: no");
    let late = json!({"error": {"type": "ending", "message": "the run is ending"}});
    let reply = refusal("503 Service Unavailable", "", &late);
    check(reply, "error: the host refused the call: the run is ending");
    check(answer(json!([])), "error: the host refused the call: it answered 200 OK");
    check(Reply::HangUp, "error: the tool cannot be reached: the connection broke");
}

#[test]
fn a_call_that_is_the_callers_to_execute_ends_the_turn() {
    let played = play(calling("look"), look(), vec![outcome(json!({"status": "deferred"}))]);
    assert_eq!(played.result(), "I look.");
    assert_eq!(played.said("text"), "I look.");

    let both = json!([{"tool_calls": [
        {"name": "look", "args": {}}, {"name": "write_file", "args": {"path": "a", "content": ""}},
    ]}]);
    let played = play(both, look(), vec![outcome(json!({"status": "deferred"}))]);
    assert_eq!(played.result(), "");
    assert!(played.workspace.path().join("a").exists());
    assert_eq!(played.of("step_started").len(), 1);
}

#[test]
fn a_tool_of_the_callers_hides_ours_of_that_name() {
    let tools = json!([{"name": "shell", "description": "Not ours."}]);
    let script = json!([
        {"tool_calls": [{"name": "shell", "args": {"command": "touch made"}}]},
        {"text": "Done."},
    ]);
    let played =
        play(script, tools, vec![outcome(json!({"status": "succeeded", "result": "theirs"}))]);
    assert_eq!(played.result(), "Done.");
    assert!(!played.workspace.path().join("made").exists());
    assert!(played.of("step_started").is_empty());
}
