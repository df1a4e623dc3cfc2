//! Every kind of mistake in a dispatch, by the name of its field.

use serde_json::{Value, json};
use store::OnDisconnect;

use super::{Dispatch, Limits, Origin, PROMPT_LIMIT};

/// A dispatch that is right, with some fields replaced.
fn body(changes: Value) -> Vec<u8> {
    let mut body = json!({
        "agent_url": "http://127.0.0.1:9/api/", "otp_setup": "otp_a", "otp_run": "otp_b",
        "prompt": "hello",
    });
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body.to_string().into_bytes()
}

#[track_caller]
fn check(changes: Value, expected: &str) {
    let refused = Dispatch::parse(&body(changes.clone())).unwrap_err().to_string();
    assert_eq!(refused, expected, "{changes}");
}

#[test]
fn a_dispatch_by_callbacks_is_read_in_either_case() {
    let snake = Dispatch::parse(&body(json!({"otp_upload": "otp_c"}))).unwrap();
    let camel = json!({
        "agentUrl": "http://127.0.0.1:9/api", "otpSetup": "otp_a", "otpRun": "otp_b",
        "otpUpload": "otp_c", "prompt": "hello", "onDisconnect": "continue", "chatId": "chat_1",
        "limits": {"maxRuntimeSec": 5, "model_timeout_sec": 6, "tokens": 7},
        "modelOptions": {"sessionId": "x"}, "fileEvents": false, "tools": [], "policy": {},
        "harness": "builtin", "nobody_knows": 1,
    });
    let camel = Dispatch::parse(camel.to_string().as_bytes()).unwrap();
    for dispatch in [&snake, &camel] {
        assert_eq!(dispatch.prompt, "hello");
        assert_eq!(dispatch.template, "base");
        let Origin::Callbacks { agent_url, otp_setup, otp_run, otp_upload } = &dispatch.origin
        else {
            panic!("{dispatch:?}");
        };
        assert_eq!(agent_url, "http://127.0.0.1:9/api");
        assert_eq!((otp_setup.expose().as_str(), otp_run.expose().as_str()), ("otp_a", "otp_b"));
        assert_eq!(otp_upload.as_ref().unwrap().expose(), "otp_c");
    }
    assert_eq!(snake.on_disconnect, OnDisconnect::Cancel);
    assert_eq!(camel.on_disconnect, OnDisconnect::Continue);
    assert_eq!(camel.chat_id.as_deref(), Some("chat_1"));
    let limits = Limits { max_runtime_sec: Some(5), model_timeout_sec: Some(6), tokens: Some(7) };
    assert_eq!(camel.limits, limits);
}

#[test]
fn an_inline_dispatch_needs_no_workspace() {
    let inline = br#"{"prompt":"x","config":{"system_prompt":"s"},"env":{"variables":{"A":"1"}}}"#;
    let dispatch = Dispatch::parse(inline).unwrap();
    let Origin::Inline { env, .. } = &dispatch.origin else { panic!("{dispatch:?}") };
    assert_eq!(env.variables["A"], "1");
    assert!(Dispatch::parse(br#"{"prompt":"x","config":{}}"#).is_ok());
}

#[test]
fn every_mistake_has_the_name_of_its_field() {
    for (name, absent) in [("prompt", "prompt"), ("otp_setup", "otp_setup"), ("otp_run", "otp_run")]
    {
        check(json!({ name: null }), &format!("`{absent}` is missing"));
    }
    check(json!({"agent_url": null}), "`agent_url` is missing");
    check(json!({"prompt": " \n"}), "`prompt` must not be empty");
    check(json!({"prompt": 7}), "`prompt` must be a string");
    check(
        json!({"prompt": "x".repeat(PROMPT_LIMIT + 1)}),
        "`prompt` must be at most 1048576 bytes long",
    );
    for url in
        ["", "/api", "ftp://a/b", "http://", "a b", "http://u:p@a/", "http://a/?q", "http://a/#f"]
    {
        let must = if url.is_empty() {
            "must not be empty"
        } else {
            "must be an absolute http(s) address"
        };
        check(json!({"agent_url": url}), &format!("`agent_url` {must}"));
    }
    check(json!({"otp_run": "a b"}), "`otp_run` must be printable ASCII without spaces");
    check(json!({"on_disconnect": "wait"}), "`on_disconnect` must be `cancel` or `continue`");
    check(json!({"limits": []}), "`limits` must be an object");
    check(json!({"limits": {"tokens": 0}}), "`limits.tokens` must be a whole number above 0");
    check(json!({"limits": {"token": 1}}), "`limits.token` is not known");
    check(json!({"config": {}}), "`agent_url` and `config` exclude each other");
    check(json!({"env": {}}), "`agent_url` and `env` exclude each other");
    check(json!({"agentUrl": "http://a"}), "`agent_url` is there twice, also as `agentUrl`");
    check(json!({"file_events": 1}), "`file_events` must be true or false");
}

#[test]
fn what_a_later_version_will_know_is_refused() {
    check(json!({"tools": [{}]}), "`tools` is not there yet in this version of Mayfly");
    check(json!({"policy": {"a": 1}}), "`policy` is not there yet in this version of Mayfly");
    check(json!({"fileEvents": true}), "`fileEvents` is not there yet in this version of Mayfly");
    check(
        json!({"harness": "codex"}),
        "`harness: codex` is not there yet in this version of Mayfly",
    );
}

#[test]
fn an_inline_dispatch_is_checked_too() {
    let check = |body: Value, expected: &str| {
        let refused = Dispatch::parse(body.to_string().as_bytes()).unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{body}: {refused}");
    };
    check(json!({"prompt": "x", "config": 1}), "`config` is not a configuration");
    check(json!({"prompt": "x", "config": {"model": 1}}), "`config` is not a configuration");
    check(json!({"prompt": "x", "config": {}, "env": 1}), "`env` is not an environment");
    check(json!({"prompt": "x", "config": {}, "otp_run": "a"}), "`otp_run` is of no use");
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for body in ["", "[]", "null", "{", "\"x\""] {
        let refused = Dispatch::parse(body.as_bytes()).unwrap_err().to_string();
        assert!(refused.starts_with("the body is not a JSON object"), "{body}: {refused}");
    }
}
