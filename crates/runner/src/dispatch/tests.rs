//! Every kind of mistake in a dispatch, by the name of its field.

use std::time::Duration;

use serde_json::{Value, json};
use store::OnDisconnect;
use wire::agent::{CodeMode, FileEvents, Harness, Ruling};

use super::{Dispatch, Executor, Limits, Origin, PROMPT_LIMIT};

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
        "modelOptions": {"sessionId": "s-1", "temperature": 1}, "fileEvents": {"diff": true},
        "tools": [{
            "name": "look_up", "url": "http://127.0.0.1:9/t?key=1", "timeoutMs": 5,
            "headers": {"X-Token": "secret"},
        }],
        "policy": {"commands": {"deny": ["rm *"]}, "capabilities": {"fileWrite": "deny"}},
        "codeMode": true, "harness": "builtin", "nobody_knows": 1,
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
    assert_eq!((snake.harness, camel.harness), (None, Some(Harness::Builtin)));
    assert_eq!((snake.file_events, camel.file_events), (FileEvents::On, FileEvents::Diff));
    assert_eq!((snake.code_mode, camel.code_mode), (CodeMode::Off, CodeMode::On));
    assert_eq!(camel.session_id.as_deref(), Some("s-1"));
    let policy = camel.policy.as_ref().unwrap();
    assert_eq!(policy.commands.deny, ["rm *"]);
    assert_eq!(policy.capabilities.file_write, Some(Ruling::Deny));
    assert_eq!(policy.default, Ruling::Ask);
    let empty = Dispatch::parse(br#"{"prompt": "x", "config": {}, "policy": {}}"#).unwrap();
    assert_eq!(empty.policy.map(|policy| policy.default), Some(Ruling::Ask));
    let [given] = &camel.tools[..] else { panic!("{camel:?}") };
    assert_eq!(given.tool.parameters, json!({"type": "object"}));
    let Executor::Http { url, headers, timeout } = &given.executor else { panic!("{given:?}") };
    assert_eq!(
        (url.as_str(), *timeout),
        ("http://127.0.0.1:9/t?key=1", Some(Duration::from_millis(5)))
    );
    assert_eq!((headers[0].0.as_str(), headers[0].1.expose().as_str()), ("X-Token", "secret"));
    assert!(!format!("{camel:?}").contains("secret"));
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
}

#[test]
fn mistakes_in_what_the_agent_is_given_have_names_too() {
    let boolean = "must be true or false";
    check(
        json!({"file_events": 1}),
        "`file_events` must be true, false, or an object with `diff` and `webhook`",
    );
    check(json!({"fileEvents": {"diff": 1}}), &format!("`file_events.diff` {boolean}"));
    check(json!({"fileEvents": {"dif": true}}), "`file_events.dif` is not known");
    check(
        json!({"fileEvents": {"webhook": "x"}}),
        "`file_events.webhook` must be an absolute http(s) address",
    );
    check(json!({"codeMode": "yes"}), &format!("`code_mode` {boolean}"));
    check(
        json!({"harness": "gemini"}),
        "`harness` must be one of `builtin`, `claude-code`, `codex`, `opencode`, `grok-build`",
    );
    for id in ["../x", ".x", "a b", &"x".repeat(129)] {
        let must = "must be 1 to 128 letters, digits, `_`, `.` and `-`, and begin with no dot";
        check(
            json!({"modelOptions": {"sessionId": id}}),
            &format!("`model_options.session_id` {must}"),
        );
    }
    check(json!({"policy": {"command": {}}}), "`policy.command` is not known");
    check(json!({"policy": {"commands": {"alow": []}}}), "`policy.commands.alow` is not known");
    check(json!({"policy": {"commands": {"ask": "x"}}}), "`policy.commands.ask` must be a list");
    check(
        json!({"policy": {"commands": {"ask": [1]}}}),
        "`policy.commands.ask[0]` must be a pattern of at most 4096 bytes",
    );
    check(
        json!({"policy": {"capabilities": {"network": "no"}}}),
        "`policy.capabilities.network` must be `allow`, `ask` or `deny`",
    );
    check(
        json!({"policy": {"approvals": {"a:b:c": "ask"}}}),
        "`policy.approvals.a:b:c` must be `allow` or `deny`",
    );
}

#[test]
fn mistakes_in_tools_have_the_place_of_the_tool() {
    let tool = |changes: Value| {
        let mut tool = json!({"name": "a", "url": "http://a/"});
        tool.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({"tools": [{"name": "first", "url": "http://a/"}, tool]})
    };
    check(json!({"tools": {}}), "`tools` must be a list");
    check(json!({"tools": [1]}), "`tools[0]` must be an object");
    check(tool(json!({"name": null})), "`tools[1].name` is missing");
    for name in ["a b", "ä", "a.b", &"x".repeat(65)] {
        let must = "must be 1 to 64 letters, digits, `_` and `-`";
        check(tool(json!({"name": name})), &format!("`tools[1].name` {must}"));
    }
    check(tool(json!({"name": "first"})), "`tools` must not name `first` twice");
    check(tool(json!({"url": null})), "`tools[1].url` is missing");
    check(tool(json!({"url": "file:///x"})), "`tools[1].url` must be an absolute http(s) address");
    check(
        tool(json!({"parameters": []})),
        "`tools[1].parameters` must be a JSON Schema, as an object",
    );
    check(tool(json!({"headers": {"a": 1}})), "`tools[1].headers.a` must be a string");
    check(tool(json!({"headers": {"a": "\n"}})), "`tools[1].headers.a` cannot be sent as a header");
    check(tool(json!({"timeout_ms": 0})), "`tools[1].timeout_ms` must be a whole number above 0");
    check(tool(json!({"auth": "x"})), "`tools[1].auth` is not known");
    let many: Vec<Value> =
        (0..129).map(|n| json!({"name": format!("t{n}"), "url": "http://a"})).collect();
    check(json!({"tools": many}), "`tools` must have at most 128 items");
}

#[test]
fn a_harness_brings_its_template_and_needs_its_own_model() {
    let parse = |harness: &str, provider: &str| {
        let body = json!({
            "prompt": "x", "harness": harness, "config": {"model": {"provider": provider}},
        });
        Dispatch::parse(body.to_string().as_bytes())
    };
    for (harness, provider, template) in [
        ("builtin", "scripted", "base"),
        ("claude-code", "anthropic", "claude-code"),
        ("codex", "openai-responses", "codex"),
        ("opencode", "openai", "opencode"),
        ("grok-build", "anthropic", "grok-build"),
    ] {
        assert_eq!(parse(harness, provider).unwrap().template, template);
    }
    for (harness, provider, must) in [
        ("claude-code", "openai", "must be `anthropic`, which is what `claude-code` speaks"),
        ("codex", "openai", "must be `openai-responses`, which is what `codex` speaks"),
        ("opencode", "scripted", "must name a real model: `opencode` has no scripted one"),
    ] {
        let refused = parse(harness, provider).unwrap_err().to_string();
        assert_eq!(refused, format!("`config.model.provider` {must}"));
    }
    let config = json!({
        "model": {"provider": "anthropic"},
        "harness": {"kind": "claude-code", "session_id": "abc"},
    });
    let body = json!({"prompt": "x", "config": config});
    let dispatch = Dispatch::parse(body.to_string().as_bytes()).unwrap();
    assert_eq!(dispatch.harness, Some(Harness::ClaudeCode));
    assert_eq!(dispatch.session_id.as_deref(), Some("abc"));
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
    let config = json!({"harness": {"kind": "x"}});
    check(json!({"prompt": "x", "config": config}), "`config.harness.kind` must be one of");
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for body in ["", "[]", "null", "{", "\"x\""] {
        let refused = Dispatch::parse(body.as_bytes()).unwrap_err().to_string();
        assert!(refused.starts_with("the body is not a JSON object"), "{body}: {refused}");
    }
}
