//! The two callbacks of the boot, and workspaces that answer them badly.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use wire::run::ErrorCode;

use crate::host::{Host, Reply};
use crate::program::{Agent, OTP_RUN, OTP_SETUP, OTP_UPLOAD};
use crate::zips::{sha256, zip};

#[test]
fn callbacks_come_in_order_and_each_token_is_redeemed_once() {
    let host = Host::new();
    let skill = zip(&[("SKILL.md", b"# A skill")]);
    let version = sha256(&skill);
    let skill_path = format!("/skills/actana_tables/{version}");
    host.env(json!({}), "mkdir -p assets && echo hello > assets/a.txt");
    host.config(json!({
        "skills": [{"id": "actana_tables", "name": "Tables", "version": version,
                    "url": format!("{}{skill_path}", host.link)}],
        "assets": {"url": format!("{}/assets", host.link)}
    }));
    host.on(&format!("GET {skill_path}"), Reply::Bytes(skill));
    host.on("GET /assets", Reply::Bytes(zip(&[("a.csv", b"1,2")])));
    let stored = json!({"id": "f", "name": "a.txt", "mimeType": "text/plain", "size": 6,
                        "sha256": sha256(b"hello\n"), "storageKey": "k"});
    host.on("POST /agent/results", Reply::Json(200, json!({"files": [stored]})));
    let agent = Agent::new(&host);
    assert_eq!(agent.run().result(), "done");
    let asked = host.asked();
    let seen: Vec<(&str, Option<&str>)> =
        asked.iter().map(|asked| (asked.line.as_str(), asked.authorization.as_deref())).collect();
    let skill_line = format!("GET {skill_path}");
    let expected = [
        ("GET /agent/env", Some(OTP_SETUP)),
        ("GET /agent/config", Some(OTP_RUN)),
        (skill_line.as_str(), None),
        ("GET /assets", None),
        ("POST /agent/results", Some(OTP_UPLOAD)),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn an_inline_run_calls_nobody() {
    let host = Host::new();
    let mut agent = Agent::new(&host);
    agent.bootstrap["source"] = json!({
        "kind": "inline",
        "env": {"variables": {"A": "inline value"}, "setup_script": "echo \"$A\""},
        "config": {"model": {"provider": "scripted", "script": [{"text": "inline"}]}}
    });
    let said = agent.run();
    assert_eq!(said.result(), "inline");
    assert!(said.logs().contains(&"inline value"));
    assert_eq!(host.lines(), Vec::<String>::new());
}

#[test]
fn a_refused_token_ends_the_run_with_the_workspaces_reason() {
    for status in [401, 403] {
        let host = Host::new();
        host.on("GET /agent/env", Reply::Json(status, json!({"code": "otp_used"})));
        let said = Agent::new(&host).run();
        let message = format!("GET /agent/env answered {status} (otp_used)");
        assert_eq!(said.error(ErrorCode::OtpRejected), message);
        // The other token is left alone.
        assert_eq!(host.lines(), ["GET /agent/env"]);
    }
    let host = Host::new();
    host.on("GET /agent/config", Reply::Json(401, json!({"error": {"code": "otp_expired"}})));
    let said = Agent::new(&host).run();
    let message = said.error(ErrorCode::OtpRejected);
    assert_eq!(message, "GET /agent/config answered 401 (otp_expired)");
}

/// Both callbacks, answered that way: the message has to name path and reason,
/// and the token is not tried again.
#[track_caller]
fn check_bad(reply: &Reply, reason: &str) {
    for line in ["GET /agent/env", "GET /agent/config"] {
        let host = Host::new();
        host.on(line, reply.clone());
        let said = Agent::new(&host).impatient().run();
        let message = said.error(ErrorCode::BootstrapFailed);
        assert!(message.starts_with(line) && message.contains(reason), "{message}");
        assert_eq!(host.lines().iter().filter(|asked| *asked == line).count(), 1);
    }
}

#[test]
fn a_workspace_that_answers_badly_ends_the_run_and_is_asked_once() {
    check_bad(&Reply::Json(500, json!({})), "answered 500");
    check_bad(&Reply::Json(404, json!({"code": "not_found"})), "answered 404 (not_found)");
    check_bad(&Reply::Json(302, json!({})), "answered 302");
    check_bad(&Reply::Bytes(b"<html>".to_vec()), "line 1");
    check_bad(&Reply::Bytes(Vec::new()), "line 1");
    check_bad(&Reply::Json(200, json!([])), "the document");
    check_bad(&Reply::Broken, "the connection broke");
}

#[test]
fn a_workspace_that_does_not_answer_in_time_ends_the_run() {
    check_bad(&Reply::Never, "no answer after 300 ms");
    check_bad(&Reply::Dripping, "no answer after 300 ms");
}

#[test]
fn an_endless_answer_ends_the_run_at_its_limit() {
    check_bad(&Reply::Endless, "the answer is larger than 65536 bytes");
}

#[test]
fn nobody_at_the_other_end_is_said() {
    let host = Host::new();
    let mut agent = Agent::new(&host);
    agent.bootstrap["link"] = json!("http://127.0.0.1:1");
    let said = agent.run();
    let message = said.error(ErrorCode::BootstrapFailed);
    assert!(message.starts_with("GET /agent/env: the host link does not answer"), "{message}");
}

#[test]
fn a_wrong_field_is_named() {
    let check = |config: Value, field: &str| {
        let host = Host::new();
        host.config(config);
        let said = Agent::new(&host).run();
        let message = said.error(ErrorCode::BootstrapFailed);
        assert!(message.starts_with("GET /agent/config: "), "{message}");
        assert!(message.contains(&format!("field `{field}`")), "{message}");
    };
    check(json!({"max_rounds": "ten"}), "max_rounds");
    check(json!({"model": {"provider": "other"}}), "model.provider");
    check(json!({"skills": [{"id": "../../etc", "version": "1"}]}), "skills[0].id");
    check(json!({"skills": [{"id": "a", "version": "../.."}]}), "skills[0].version");
    check(json!({"caller": "somebody"}), "caller");
}

#[test]
fn caller_and_conversation_have_to_fit() {
    let check = |caller: &str, chat_id: Value, fits: bool| {
        let host = Host::new();
        host.config(json!({"caller": caller}));
        let mut agent = Agent::new(&host);
        agent.bootstrap["chat_id"] = chat_id;
        let said = agent.run();
        match fits {
            true => assert_eq!(said.result(), "done"),
            false => assert!(said.error(ErrorCode::BadRequest).contains("chat_id")),
        }
    };
    check("assistant", json!("chat_1"), true);
    check("assistant", Value::Null, false);
    check("agents", Value::Null, true);
    check("agents", json!("chat_1"), false);
}

#[test]
fn no_token_is_in_the_arguments_the_environment_or_on_disk() {
    let host = Host::new();
    host.on("GET /agent/config", Reply::Never);
    let agent = Agent::new(&host);
    let running = agent.start();
    while host.lines().len() < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    for file in ["environ", "cmdline"] {
        let path = format!("/proc/{}/{file}", running.pid());
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        assert!(text.contains("mayfly-agent") || text.contains("HOME="), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    drop(running);

    let host = Host::new();
    host.env(json!({}), "env; grep -rl otp_ \"$HOME\" --exclude-dir=setup || echo nowhere");
    let said = Agent::new(&host).run();
    let logs = said.logs();
    assert!(logs.iter().any(|line| line.starts_with("AGENT_URL=")), "{logs:?}");
    assert!(!logs.iter().any(|line| line.contains("secret")), "{logs:?}");
    assert!(logs.contains(&"nowhere"), "{logs:?}");
}
