//! What the decoder makes of notices, one by one.

use serde_json::{Value, json};
use wire::run::{Level, Outcome};

use super::super::call::Dialect;
use super::{Decoder, Heard};

fn decoder(dialect: Dialect) -> Decoder {
    Decoder::new(dialect, &["mayfly".to_owned()], "s", 1 << 20)
}

fn update(decoder: &mut Decoder, update: Value) -> Vec<Heard> {
    decoder.notice("session/update", &json!({"sessionId": "s", "update": update}))
}

fn say(decoder: &mut Decoder, id: Option<&str>, text: &str) -> String {
    let content = json!({"type": "text", "text": text});
    let said = json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": content});
    match update(decoder, said).as_slice() {
        [Heard::Text { message_id, delta }] if delta == text => message_id.clone(),
        other => panic!("{other:?}"),
    }
}

fn call(id: &str, status: Value) -> Value {
    json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "title": "bash", "status": status,
        "rawInput": {},
    })
}

fn progress(id: &str, status: Value) -> Value {
    json!({
        "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
        "rawInput": {"command": "ls"}, "rawOutput": {"output": "o"},
    })
}

fn began(id: &str) -> Heard {
    let args = json!({"command": "ls"});
    Heard::CallStarted { id: id.to_owned(), name: "bash".to_owned(), args }
}

fn ended(id: &str) -> Heard {
    let outcome = Outcome::Succeeded { result: json!("o"), truncated: false };
    Heard::CallEnded { id: id.to_owned(), outcome }
}

#[test]
fn a_call_begins_with_its_arguments_and_ends_once() {
    let mut decoder = decoder(Dialect::Opencode);
    assert_eq!(update(&mut decoder, call("c", json!("pending"))), []);
    assert!(decoder.tools_run());
    assert_eq!(update(&mut decoder, progress("c", json!("in_progress"))), [began("c")]);
    assert_eq!(update(&mut decoder, progress("c", json!(null))), []);
    assert_eq!(update(&mut decoder, progress("c", json!("completed"))), [ended("c")]);
    assert!(!decoder.tools_run());
    // Whatever is told later is no new call.
    for late in ["in_progress", "completed", "failed"] {
        assert_eq!(update(&mut decoder, progress("c", json!(late))), []);
    }
    assert_eq!(update(&mut decoder, call("c", json!(null))), []);
    assert!(!decoder.tools_run());
}

#[test]
fn a_call_that_is_first_heard_of_at_its_end_is_told_whole() {
    let mut decoder = decoder(Dialect::Opencode);
    let mut whole = progress("c", json!("completed"));
    whole["title"] = json!("bash");
    assert_eq!(update(&mut decoder, whole), [began("c"), ended("c")]);
}

#[test]
fn a_call_that_is_not_allowed_fails_in_the_words_of_the_policy() {
    let mut decoder = decoder(Dialect::Grok);
    let asked = json!({"toolCallId": "c", "title": "Execute `ls`", "rawInput": {"command": "ls"},
        "_meta": {"x.ai/tool": {"name": "bash"}}});
    assert_eq!(decoder.call(&asked), [began("c")]);
    assert_eq!(decoder.shown("c").map(|shown| shown.name).as_deref(), Some("bash"));
    decoder.deny("c", "the policy denies it");
    let outcome = Outcome::Failed { error: "the policy denies it".to_owned(), result: None };
    let failed = Heard::CallEnded { id: "c".to_owned(), outcome };
    assert_eq!(update(&mut decoder, progress("c", json!("failed"))), [failed]);
    assert!(!decoder.speaks());
    say(&mut decoder, None, "Then not.");
    assert!(decoder.speaks());
}

#[test]
fn a_call_that_is_asked_about_early_begins_with_all_of_its_arguments() {
    let mut decoder = decoder(Dialect::Opencode);
    let whole = json!({"command": "ls", "description": "d"});
    let asked = json!({"toolCallId": "c", "title": "ls", "status": "pending",
        "rawInput": {"command": "ls"}});
    let mut begun = progress("c", json!("in_progress"));
    begun["rawInput"] = whole.clone();
    assert_eq!(update(&mut decoder, call("c", json!("pending"))), []);
    assert_eq!(decoder.call(&asked), []);
    assert_eq!(decoder.shown("c").map(|shown| shown.args), Some(json!({"command": "ls"})));
    let name = "bash".to_owned();
    let began_whole = Heard::CallStarted { id: "c".to_owned(), name, args: whole };
    assert_eq!(update(&mut decoder, begun), [began_whole]);
    // What is never told of it does not keep it from being told.
    let asked = json!({"toolCallId": "d", "title": "bash", "status": "pending",
        "rawInput": {"command": "ls"}});
    assert_eq!(decoder.call(&asked), []);
    let mut whole = progress("d", json!("completed"));
    whole["rawInput"] = json!(null);
    assert_eq!(update(&mut decoder, whole), [began("d"), ended("d")]);
}

#[test]
fn a_call_that_is_not_allowed_is_told_even_if_its_end_is_not() {
    let mut decoder = decoder(Dialect::Opencode);
    for id in ["c", "d"] {
        let asked = json!({"toolCallId": id, "title": "bash", "status": "pending",
            "rawInput": {"command": "ls"}});
        assert_eq!(decoder.call(&asked), []);
    }
    decoder.deny("c", "no");
    let outcome = Outcome::Failed { error: "no".to_owned(), result: None };
    let failed = Heard::CallEnded { id: "c".to_owned(), outcome };
    assert_eq!(decoder.end_turn(), [began("c"), failed]);
    assert!(!decoder.tools_run());
}

#[test]
fn a_tool_of_the_callers_runs_in_silence() {
    let mut decoder = decoder(Dialect::Opencode);
    let mut bridged = call("c", json!("in_progress"));
    bridged["title"] = json!("mayfly_lookup");
    assert_eq!(update(&mut decoder, bridged), []);
    assert!(decoder.tools_run());
    assert_eq!(update(&mut decoder, progress("c", json!("completed"))), []);
    assert!(!decoder.tools_run());
}

#[test]
fn messages_end_with_a_call_with_a_retry_and_with_the_next_one() {
    let mut decoder = decoder(Dialect::Opencode);
    assert_eq!(say(&mut decoder, Some("a"), "one "), "msg_1");
    assert_eq!(say(&mut decoder, Some("a"), "two"), "msg_1");
    assert_eq!(say(&mut decoder, Some("b"), "three"), "msg_2");
    update(&mut decoder, call("c", json!("in_progress")));
    assert_eq!(decoder.message(), "three");
    assert_eq!(say(&mut decoder, Some("b"), "half"), "msg_3");
    decoder.retry("again");
    assert_eq!(say(&mut decoder, Some("b"), "half"), "msg_4");
    assert_eq!(say(&mut decoder, Some("b"), " and whole"), "msg_4");
    assert_eq!(decoder.message(), "half and whole");
}

#[test]
fn what_is_not_of_this_session_or_not_known_is_passed_over() {
    let mut decoder = decoder(Dialect::Grok);
    let text = json!({"sessionUpdate": "agent_message_chunk", "content": {"text": "x"}});
    for (method, params) in [
        ("session/update", json!({"sessionId": "child", "update": text})),
        ("session/update", json!({"update": text})),
        ("session/update", json!({"sessionId": "s", "update": {"sessionUpdate": "new_thing"}})),
        ("session/update", json!({"sessionId": "s"})),
        ("session/update", json!("odd")),
        ("_x.ai/queue/changed", json!({"sessionId": "s", "update": text})),
    ] {
        assert_eq!(decoder.notice(method, &params), [], "{method} {params}");
    }
    let retry = json!({"sessionUpdate": "retry_state", "type": "retrying", "reason": "busy"});
    let params = json!({"sessionId": "s", "update": retry});
    let heard = decoder.notice("_x.ai/session_notification", &params);
    assert_eq!(heard, [Heard::Log { level: Level::Warn, message: "busy".to_owned() }]);
    let plan = update(&mut decoder, json!({"sessionUpdate": "plan", "entries": [1]}));
    assert_eq!(plan, [Heard::Plan(json!([1]))]);
}

#[test]
fn nothing_that_a_cli_may_print_is_too_odd() {
    let mut decoder = decoder(Dialect::Grok);
    let kinds = ["tool_call", "tool_call_update", "agent_message_chunk", "plan"];
    let odd = [json!(null), json!(1), json!("x"), json!([[]]), json!({"a": {}})];
    for kind in kinds {
        for value in &odd {
            let strange = json!({
                "sessionUpdate": kind, "toolCallId": value, "title": value, "status": value,
                "rawInput": value, "rawOutput": value, "content": value, "_meta": value,
                "entries": value,
            });
            update(&mut decoder, strange.clone());
            decoder.call(&strange);
        }
    }
    decoder.end_turn();
    assert!(!decoder.tools_run());
}
