//! Requests of front ends, read as dispatches.

use serde_json::{Value, json};
use wire::agent::{Harness, ModelConfig};

use super::{called, read};
use crate::dispatch::{Dispatch, Executor, Origin};

fn body(changes: Value) -> Vec<u8> {
    let mut body = json!({
        "threadId": "thread-1", "runId": "run-1", "state": {}, "tools": [], "context": [],
        "messages": [{"id": "1", "role": "user", "content": "hello"}], "forwardedProps": {},
    });
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body.to_string().into_bytes()
}

fn dispatched(changes: Value) -> Dispatch {
    read(&body(changes), None).unwrap()
}

fn config(dispatch: &Dispatch) -> &Value {
    let Origin::Inline { config, .. } = &dispatch.origin else { panic!("{dispatch:?}") };
    config.expose()
}

#[track_caller]
fn check(changes: Value, expected: &str) {
    let refused = read(&body(changes.clone()), None).unwrap_err().to_string();
    assert_eq!(refused, expected, "{changes}");
}

/// What a client has after a run that left a call to it, and its own answer.
fn after_a_deferred_call() -> Value {
    let call = json!({
        "id": "run.c", "type": "function", "function": {"name": "ask", "arguments": "{\"q\":1}"},
    });
    json!([
        {"id": "1", "role": "system", "content": "be kind"},
        {"id": "2", "role": "user", "content": "ask me"},
        {"id": "3", "role": "assistant", "toolCalls": [call]},
        {"id": "4", "role": "tool", "toolCallId": "run.c", "content": "blue"},
    ])
}

#[test]
fn the_last_message_is_the_prompt_and_the_others_came_before() {
    let dispatch = dispatched(json!({
        "messages": [
            {"id": "1", "role": "developer", "content": "be brief"},
            {"id": "2", "role": "user", "content": "hello"},
            {"id": "3", "role": "assistant", "content": "hi"},
            {"id": "4", "role": "user", "content": [{"type": "text", "text": "and now?"}]},
        ],
        "context": [{"description": "the page", "value": "settings"}],
        "forwardedProps": {"config": {"system_prompt": "You help."}},
    }));
    assert_eq!(dispatch.prompt, "and now?");
    assert_eq!(dispatch.thread_id.as_deref(), Some("thread-1"));
    assert_eq!(dispatch.client_run_id.as_deref(), Some("run-1"));
    let config = config(&dispatch);
    assert_eq!(config["system_prompt"], "You help.\n\nbe brief\n\nthe page: settings");
    let expected = json!([
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
    ]);
    assert_eq!(config["messages"], expected);
}

#[test]
fn what_a_clients_tool_returned_is_part_of_the_messages() {
    let dispatch = dispatched(json!({"messages": after_a_deferred_call()}));
    assert_eq!(dispatch.prompt, "");
    let messages = &config(&dispatch)["messages"];
    let call = json!({"type": "tool_call", "id": "run.c", "name": "ask", "args": {"q": 1}});
    assert_eq!(messages[1], json!({"role": "assistant", "content": [call]}));
    let result = json!({"type": "tool_result", "id": "run.c", "content": "blue"});
    assert_eq!(messages[2], json!({"role": "user", "content": [result]}));
}

#[test]
fn a_harness_that_keeps_its_own_conversation_is_told_the_results() {
    let dispatch = dispatched(json!({
        "messages": after_a_deferred_call(),
        "forwardedProps": {
            "harness": "codex", "sessionId": "s-1",
            "model": {"provider": "openai-responses", "name": "m"},
        },
    }));
    assert_eq!(dispatch.prompt, "Tool results:\n\nask: blue");
    assert_eq!(dispatch.harness, Some(Harness::Codex));
    assert_eq!(dispatch.session_id.as_deref(), Some("s-1"));
    assert_eq!(dispatch.template, "codex");
}

#[test]
fn tools_of_the_client_and_of_servers_are_told_apart() {
    let dispatch = dispatched(json!({
        "tools": [{"name": "ask", "description": "asks", "parameters": {"type": "object"}}],
        "forwardedProps": {"tools": [{"name": "look", "url": "http://a/look"}]},
    }));
    let [look, ask] = &dispatch.tools[..] else { panic!("{dispatch:?}") };
    assert!(matches!(look.executor, Executor::Http { .. }));
    assert!(matches!(ask.executor, Executor::Client));
    assert_eq!(ask.tool.description, "asks");
}

#[test]
fn a_client_without_a_model_gets_the_servers() {
    let usual: ModelConfig = serde_json::from_value(
        json!({"provider": "anthropic", "name": "usual", "api_key": "k", "base_url": "http://m"}),
    )
    .unwrap();
    let model = |props: Value| {
        let dispatch = read(&body(json!({"forwardedProps": props})), Some(&usual)).unwrap();
        config(&dispatch)["model"].clone()
    };
    let own = model(json!({}));
    assert_eq!((&own["name"], &own["api_key"]), (&json!("usual"), &json!("k")));
    let named = model(json!({"model": "other"}));
    assert_eq!((&named["name"], &named["api_key"]), (&json!("other"), &json!("k")));
    let given = json!({"provider": "scripted"});
    assert_eq!(model(json!({"model": given})), given);
    assert_eq!(model(json!({"config": {"model": given}})), given);
    assert_eq!(config(&dispatched(json!({})))["model"], Value::Null);
}

#[test]
fn a_name_that_no_run_can_have_is_not_looked_for() {
    let refused = called(&body(json!({"threadId": "t".repeat(4097)}))).unwrap_err().to_string();
    assert_eq!(refused, "`threadId` must be 1 to 4096 bytes long");
    assert_eq!(called(&body(json!({}))).unwrap().run_id, "run-1");
}

#[test]
fn every_mistake_has_the_name_of_its_field() {
    check(json!({"threadId": null}), "`threadId` is missing");
    check(json!({"runId": ""}), "`runId` must be 1 to 4096 bytes long");
    let ending = "`messages` must end with what a user said or what a tool returned";
    check(json!({"messages": []}), ending);
    let said = json!({"role": "assistant", "content": "hi"});
    check(json!({"messages": [said]}), ending);
    check(
        json!({"messages": [{"role": "user", "content": " "}]}),
        "`messages` must not end with an empty text",
    );
    check(
        json!({"tools": [{"name": "a b", "description": ""}]}),
        "`tools[0].name` must be 1 to 64 letters, digits, `_` and `-`",
    );
    let props = |props: Value| json!({"forwardedProps": props});
    check(
        props(json!({"harness": "x"})),
        "`forwardedProps.harness` must be one of `builtin`, `claude-code`, `codex`, `opencode`, \
         `grok-build`",
    );
    check(
        props(json!({"harness": "claude-code"})),
        "`forwardedProps.config.model.provider` must be `anthropic`, which is what `claude-code` \
         speaks",
    );
    check(
        props(json!({"config": {"messages": []}})),
        "`forwardedProps.config.messages` is of no use beside `messages`",
    );
    check(
        props(json!({"limits": {"tokens": 0}})),
        "`forwardedProps.limits.tokens` must be a whole number above 0",
    );
    check(props(json!({"tools": [{"name": "a"}]})), "`forwardedProps.tools[0].url` is missing");
    check(
        props(json!({"model": "m"})),
        "`forwardedProps.model` must be an object with `provider` and `name`: this server has no \
         model of its own that could be called by another name",
    );
}
