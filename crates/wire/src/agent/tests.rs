//! Golden documents: later versions still have to read them.

use serde_json::{Value, json};

use super::{AgentConfig, AgentEnv, AgentLimits, Bootstrap, McpServer, Provider, SkillId, Source};

fn bootstrap(source: Value) -> Value {
    json!({
        "run_id": "run_0123456789abcdefghjkmnpq",
        "link": "http://127.0.0.1:49983",
        "prompt": "Say hello",
        "chat_id": "chat_1",
        "source": source,
        "workspace_dir": "/root/workspace",
        "harness": "codex",
        "session_id": "s-1",
        "bridge": {"url": "http://127.0.0.1:49983/tools", "bearer": "hunter2"},
        "tools": [{"name": "t", "description": "d", "parameters": {"type": "object"}}],
        "policy": {
            "commands": {"allow": ["ls *"], "ask": [], "deny": ["rm *"]},
            "capabilities": {"fileWrite": "deny", "network": null},
            "default": "allow",
            "approvals": {"codex:command:make": "deny"}
        },
        "file_events": "diff",
        "code_mode": "on",
        "limits": {
            "model_timeout_ms": 60000, "callback_timeout_ms": 30000, "config_bytes": 8388608,
            "skill_bytes": 52428800, "bag_bytes": 536870912, "upload_files": 20,
            "upload_file_bytes": 26214400, "upload_total_bytes": 52428800,
            "tool_result_bytes": 1048576, "tool_timeout_ms": 600000
        }
    })
}

fn callbacks() -> Value {
    json!({"kind": "callbacks", "otp_setup": "otp_s", "otp_run": "otp_r", "otp_upload": null})
}

#[test]
fn a_bootstrap_reads_back_as_it_was_written() {
    let inline = json!({"kind": "inline", "env": {"variables": {"A": "1"}}, "config": {}});
    for source in [callbacks(), inline] {
        let document = bootstrap(source);
        let read: Bootstrap = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(read.limits, AgentLimits::STANDARD);
        let written = serde_json::to_value(&read).unwrap();
        let again: Bootstrap = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), written);
        assert_eq!(written["limits"], document["limits"]);
        assert_eq!(written["source"]["kind"], document["source"]["kind"]);
    }
    let read: Bootstrap = serde_json::from_value(bootstrap(callbacks())).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), bootstrap(callbacks()));
    let Source::Callbacks { otp_setup, otp_upload: None, .. } = read.source else {
        panic!("another source");
    };
    assert_eq!(otp_setup.expose(), "otp_s");
}

#[test]
fn a_bootstrap_is_read_strictly() {
    let check = |change: fn(&mut Value), message: &str| {
        let mut document = bootstrap(callbacks());
        change(&mut document);
        let refused = serde_json::from_value::<Bootstrap>(document).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    };
    check(|document| document["extra"] = json!(1), "unknown field `extra`");
    check(|document| document["source"]["extra"] = json!(1), "unknown field `extra`");
    check(|document| document["source"]["kind"] = json!("disk"), "unknown variant `disk`");
    check(|document| document["run_id"] = json!("run_1"), "a run id is");
    check(|document| document["limits"]["bag_bytes"] = json!(-1), "invalid value");
    check(|document| drop(document.as_object_mut().unwrap().remove("prompt")), "`prompt`");
}

#[test]
fn nothing_of_a_token_or_a_value_is_shown_by_debug() {
    let mut source = callbacks();
    for token in ["otp_setup", "otp_run", "otp_upload"] {
        source[token] = json!("hunter2");
    }
    let read: Bootstrap = serde_json::from_value(bootstrap(source)).unwrap();
    let shown = format!("{read:?}");
    assert!(shown.contains("otp_upload") && !shown.contains("hunter2"), "{shown}");
    let env = AgentEnv {
        variables: [("TOKEN".to_owned(), "hunter2".to_owned())].into(),
        setup_script: Some("echo hunter2".to_owned()),
    };
    let shown = format!("{env:?}");
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_config_of_the_design_is_read_and_what_is_missing_has_a_default() {
    let config: AgentConfig = serde_json::from_value(json!({
        "session_id": "s1", "caller": "assistant", "system_prompt": "Be kind.",
        "model": {"provider": "openai-responses", "name": "m", "temperature": 0.5, "new": true},
        "max_rounds": 3,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello"},
                                              {"type": "text", "text": "there"}]}
        ],
        "chat_id": "c",
        "skills": [{"id": "actana_tables", "name": "Tables", "version": "A".repeat(64),
                    "url": "/skills/x"}],
        "mcp_servers": [
            {"name": "a", "transport": "stdio", "command": "npx", "args": ["-y"], "env": null},
            {"name": "b", "transport": "http", "url": "http://x/mcp/1"}
        ],
        "tools": [], "unknown": {"a": 1},
        "assets": {"url": "http://x/assets", "expires_at": 1, "files": []},
        "harness": {"kind": "builtin"},
        "workspace": {"url": "http://x/workspace", "bearer": "asbx_1"},
        "max_runtime_sec": 28800
    }))
    .unwrap();
    assert_eq!(config.model.provider, Provider::OpenaiResponses);
    assert_eq!(config.messages[1].content.to_text(), "Hello\nthere");
    assert_eq!(config.skills[0].version.as_str(), "a".repeat(64));
    assert_eq!(config.mcp_servers.iter().map(McpServer::name).collect::<Vec<_>>(), ["a", "b"]);

    let bare: AgentConfig =
        serde_json::from_value(json!({"skills": null, "model": null, "assets": null})).unwrap();
    assert_eq!(bare.model.provider, Provider::Scripted);
    assert_eq!(bare.max_rounds, 10);
    assert!(bare.skills.is_empty() && bare.assets.is_none() && bare.caller.is_none());
}

#[test]
fn a_skill_is_named_by_what_is_safe_in_a_path() {
    for good in ["actana_tables", "a.b-c_D9", &"a".repeat(128)] {
        assert!(SkillId::parse(good).is_ok(), "{good}");
    }
    let long = "a".repeat(129);
    for bad in ["", ".", "..", ".a", "a.", "a..b", "a/b", "a\\b", "a b", "a%2e", "ä", "a\0", &long]
    {
        assert!(SkillId::parse(bad).is_err(), "{bad}");
    }
    for bad in
        [json!({"id": "../x", "version": "a".repeat(64)}), json!({"id": "x", "version": "1"})]
    {
        assert!(serde_json::from_value::<super::SkillRef>(bad).is_err());
    }
}
