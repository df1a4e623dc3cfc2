//! What enters a sandbox of a config, and what stays with us.

use serde_json::{Value, json};

use super::{Addresses, Target, take};

const LINK: &str = "http://127.0.0.1:9";
const VERSION: &str = "0000000000000000000000000000000000000000000000000000000000000000";

fn taken(mut config: Value) -> (Addresses, Value) {
    let agent = Target::parse("https://workspace.test/api/sandbox/s1").unwrap();
    let addresses = take(&mut config, LINK, Some(&agent)).unwrap();
    (addresses, config)
}

#[track_caller]
fn check_refused(mut config: Value, expected: &str) {
    let agent = Target::parse("https://workspace.test/").unwrap();
    let refused = take(&mut config, LINK, Some(&agent)).unwrap_err();
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn addresses_are_ours_inside_and_everything_unknown_stays() {
    let (addresses, inside) = taken(json!({
        "session_id": "s1", "future": {"deep": [1, 2.5, null]},
        "model": {"provider": "anthropic", "name": "m", "base_url": "http://h:1/x",
                  "api_key": "sk-secret", "max_tokens": 5},
        "assets": {"url": "/bags/c.zip?sig=1", "expires_at": 7, "files": ["a"]},
        "skills": [{"id": "a", "name": "A", "version": VERSION, "url": "https://cdn.test/a.zip"},
                   {"id": "b", "version": VERSION, "url": "../b"},
                   {"id": "c", "version": VERSION}],
        "mcp_servers": [{"name": "in", "transport": "stdio", "command": "x", "args": []},
                        {"name": "out", "transport": "http", "url": "https://mcp.test/mcp?k=1",
                         "headers": {"Authorization": "Bearer t"}}],
        "workspace": {"url": "https://workspace.test/api", "bearer": "asbx_1"},
    }));
    let skill = |id: &str| format!("{LINK}/skills/{id}/{VERSION}");
    assert_eq!(
        inside,
        json!({
            "session_id": "s1", "future": {"deep": [1, 2.5, null]},
            "model": {"provider": "anthropic", "name": "m", "max_tokens": 5},
            "assets": {"url": format!("{LINK}/assets"), "expires_at": 7, "files": ["a"]},
            "skills": [{"id": "a", "name": "A", "version": VERSION, "url": skill("a")},
                       {"id": "b", "version": VERSION, "url": skill("b")},
                       {"id": "c", "version": VERSION, "url": skill("c")}],
            "mcp_servers": [{"name": "in", "transport": "stdio", "command": "x", "args": []},
                            {"name": "out", "transport": "http", "url": format!("{LINK}/mcp/1")}],
            "workspace": {"url": format!("{LINK}/workspace"), "bearer": "asbx_1"},
        })
    );
    let url = |target: &Target| target.url().to_string();
    assert_eq!(
        addresses.assets.as_ref().map(url).unwrap(),
        "https://workspace.test/bags/c.zip?sig=1"
    );
    assert_eq!(url(&addresses.skills[0].target), "https://cdn.test/a.zip");
    for (index, id) in [(1, "b"), (2, "c")] {
        let usual = format!("https://workspace.test/api/sandbox/s1/skills/{id}/{VERSION}");
        assert_eq!(url(&addresses.skills[index].target), usual);
    }
    assert!(addresses.mcp[0].is_none());
    let shown = format!("{addresses:?}");
    for secret in ["sk-secret", "Bearer", "sig=1", "k=1"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[test]
fn each_provider_has_its_usual_address() {
    for (provider, expected) in [
        ("anthropic", "https://api.anthropic.com/"),
        ("openai", "https://api.openai.com/v1"),
        ("openai-responses", "https://api.openai.com/v1"),
    ] {
        let (addresses, _) = taken(json!({"model": {"provider": provider, "name": "m"}}));
        assert_eq!(addresses.model.unwrap().base.url().as_str(), expected);
    }
    for provider in [json!("scripted"), json!("of-tomorrow"), json!(null)] {
        let config =
            json!({"model": {"provider": provider, "api_key": "k", "base_url": "http://h"}});
        let (addresses, inside) = taken(config);
        assert!(addresses.model.is_none());
        assert_eq!(inside, json!({"model": {"provider": provider}}));
    }
}

#[test]
fn an_empty_config_has_no_upstreams() {
    let nulls = json!({"model": null, "skills": null, "mcp_servers": null, "assets": null});
    for config in [json!({}), nulls] {
        let (addresses, inside) = taken(config.clone());
        assert!(addresses.model.is_none() && addresses.assets.is_none());
        assert_eq!(inside, config);
    }
}

#[test]
fn a_wrong_field_is_named() {
    check_refused(json!([]), "`config` is not an object");
    check_refused(json!({"model": "gpt"}), "`model` is not an object");
    check_refused(
        json!({"model": {"provider": "openai", "base_url": "file:///etc/passwd"}}),
        "`model.base_url` is not an absolute http or https URL",
    );
    check_refused(
        json!({"model": {"provider": "openai", "api_key": "a\nb"}}),
        "`model.api_key` cannot be sent as a header",
    );
    check_refused(json!({"assets": {"url": 7}}), "`assets.url` is not a string");
    check_refused(json!({"skills": {}}), "`skills` is not a list");
    check_refused(
        json!({"skills": [{"id": "../x", "version": VERSION}]}),
        "`skills[0].id` is wrong: a skill id is 1 to 128 letters, digits, `_`, `-` and inner dots",
    );
    check_refused(
        json!({"mcp_servers": [{"url": "http://h", "headers": {"a b": "c"}}]}),
        "`mcp_servers[0].headers.a b` cannot be sent as a header",
    );
    check_refused(
        json!({"mcp_servers": [{"url": "/mcp"}]}),
        "`mcp_servers[0].url` is not an absolute http or https URL",
    );
}

#[test]
fn an_inline_config_has_absolute_addresses_only() {
    for (config, expected) in [
        (json!({"assets": {"url": "/x"}}), "`assets.url` is not an absolute http or https URL"),
        (json!({"skills": [{"id": "a", "version": VERSION}]}), "`skills[0].url` is missing"),
    ] {
        let refused = take(&mut config.clone(), LINK, None).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
}
