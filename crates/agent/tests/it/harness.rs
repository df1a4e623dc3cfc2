//! Harnesses that are CLIs, played by a shell script that prints what the real
//! one printed and keeps what it was given.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use wire::run::{ErrorCode, Event, Outcome};

use crate::host::{Host, Reply};
use crate::program::{Agent, Said};
use crate::zips::zip;

/// The session of every transcript.
const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// Prints a transcript, and waits for an answer wherever it asks.
const PLAY: &str = r#"
cd "$HOME"
for argument in "$@"; do echo "$argument"; done > arguments
env > environment
read -r first; read -r second
printf '%s\n%s\n' "$first" "$second" > input
mkdir -p .claude/projects/-w
echo turn >> .claude/projects/-w/SESSION.jsonl
exec 3< transcript
while IFS= read -r line <&3; do
    printf '%s\n' "$line"
    case "$line" in '{"type":"control_request"'*) read -r answer; printf '%s\n' "$answer" >> input;; esac
done
read -r rest
"#;

struct Scene {
    host: Host,
    agent: Agent,
}

impl Scene {
    /// A run of Claude Code, played by a script that prints this transcript.
    fn new(transcript: &str) -> Scene {
        let scene = Scene::without_cli();
        scene.cli(&PLAY.replace("SESSION", SESSION));
        let recorded = env!("CARGO_MANIFEST_DIR").to_owned() + "/tests/transcripts/claude-code/";
        let recorded = fs::read(format!("{recorded}{transcript}.jsonl")).unwrap();
        fs::write(scene.agent.path("transcript"), recorded).unwrap();
        scene
    }

    fn without_cli() -> Scene {
        let host = Host::new();
        let mut agent = Agent::new(&host);
        agent.bootstrap["harness"] = json!("claude-code");
        let path = format!("{}:/usr/bin:/bin", agent.path("bin").display());
        host.env(json!({"PATH": path, "ANTHROPIC_AUTH_TOKEN": "somebody's"}), "");
        host.config(json!({
            "system_prompt": "Be brief.",
            "model": {"provider": "anthropic", "name": "some-model"},
            "messages": [{"role": "user", "content": "Hi"}],
        }));
        host.on(&format!("PUT /sessions/claude-code/{SESSION}"), Reply::Json(200, json!({})));
        Scene { host, agent }
    }

    fn cli(&self, script: &str) {
        fs::create_dir_all(self.agent.path("bin")).unwrap();
        let path = self.agent.path("bin/claude");
        fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn run(&self) -> Said {
        self.agent.run()
    }

    fn arguments(&self) -> Vec<String> {
        let text = fs::read_to_string(self.agent.path("arguments")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn environment(&self) -> String {
        fs::read_to_string(self.agent.path("environment")).unwrap()
    }

    /// What the CLI was told, line by line.
    fn input(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.agent.path("input")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn a_turn_of_a_cli_becomes_events_and_its_session_is_kept() {
    let scene = Scene::new("text");
    let said = scene.run();
    let mut text = String::new();
    let mut sessions = Vec::new();
    for event in &said.events {
        if let Event::Text { delta, .. } = event {
            text.push_str(delta);
        }
        if let Event::Custom { name, value } = event
            && name == "claude-code.session-id"
        {
            sessions.push(value["sessionId"].clone());
        }
    }
    assert_eq!(text, "Hello, world. Bye.");
    assert_eq!(sessions, [SESSION]);
    assert_eq!(said.result(), "Hello, world. Bye.");
    let put = format!("PUT /sessions/claude-code/{SESSION}");
    let asked = scene.host.asked();
    let kept = asked.iter().find(|asked| asked.line == put).unwrap();
    assert!(kept.body.starts_with(b"PK"));
}

#[test]
fn a_cli_is_told_all_it_needs_and_no_secret() {
    let scene = Scene::new("text");
    scene.run();
    let arguments = scene.arguments();
    for argument in ["-p", "stream-json", "some-model", "--dangerously-skip-permissions"] {
        assert!(arguments.iter().any(|given| given == argument), "{argument} in {arguments:?}");
    }
    let environment = scene.environment();
    assert!(environment.contains(&format!("ANTHROPIC_BASE_URL={}/model\n", scene.host.link)));
    assert!(environment.contains("API_TIMEOUT_MS=2000\n"), "{environment}");
    assert!(!environment.contains("somebody's"), "{environment}");
    let input = scene.input();
    assert_eq!(input[0]["request"]["appendSystemPrompt"], "Be brief.");
    assert_eq!(input[0]["request"].get("hooks"), None);
    let prompt = "Previous conversation:\n\nUser: Hi\n\nSay done";
    assert_eq!(input[1]["message"]["content"][0]["text"], prompt);
}

#[test]
fn a_session_goes_on_where_another_sandbox_left_it() {
    let mut scene = Scene::new("text");
    let file = format!(".claude/projects/-elsewhere/{SESSION}.jsonl");
    let kept = zip(&[(&file, b"before\n"), (".bashrc", b"harm")]);
    scene.host.on(&format!("GET /sessions/claude-code/{SESSION}"), Reply::Bytes(kept));
    scene.agent.bootstrap["session_id"] = json!(SESSION);
    scene.run();
    let arguments = scene.arguments();
    let resumed = arguments.iter().position(|argument| argument == "--resume").unwrap();
    assert_eq!(arguments[resumed + 1], SESSION);
    assert_eq!(scene.input()[1]["message"]["content"][0]["text"], "Say done");
    let projects = fs::read_dir(scene.agent.path(".claude/projects")).unwrap();
    let restored: Vec<PathBuf> = projects
        .map(|folder| folder.unwrap().path().join(format!("{SESSION}.jsonl")))
        .filter(|file| fs::read_to_string(file).is_ok_and(|text| text == "before\n"))
        .collect();
    assert_eq!(restored.len(), 1);
    assert!(!scene.agent.path(".bashrc").exists());
}

#[test]
fn a_session_that_nobody_knows_is_refused_before_the_cli_starts() {
    let mut scene = Scene::new("text");
    for (id, message) in [("gone", "session `gone` is not known here"), ("../a", "is not the id")] {
        scene.agent.bootstrap["session_id"] = json!(id);
        let said = scene.run();
        let words = said.error(ErrorCode::BadRequest);
        assert!(words.contains(message), "{words}");
    }
    assert!(!scene.agent.path("arguments").exists());
}

#[test]
fn what_cannot_run_says_why() {
    let scene = Scene::without_cli();
    let said = scene.run();
    let message = "`claude` is not in this template; make one with \
                   `mayfly template add-harness claude-code`";
    assert_eq!(said.error(ErrorCode::BadRequest), message);
    scene.cli("echo 'no such flag' >&2; exit 2");
    let said = scene.run();
    let message = "`claude` ended without a result (exit status: 2): no such flag";
    assert_eq!(said.error(ErrorCode::Internal), message);
    scene.host.config(json!({"model": {"provider": "openai", "name": "m"}}));
    let said = scene.run();
    assert!(said.error(ErrorCode::BadRequest).contains("`openai`"));
}

#[test]
fn a_failing_model_ends_the_run_in_its_own_words() {
    let said = Scene::new("failing-model").run();
    let message = "the provider reported an error: API Error: 400 fake 400 error";
    assert_eq!(said.error(ErrorCode::ModelError), message);
    let said = Scene::new("silent-model").run();
    assert_eq!(said.error(ErrorCode::ModelTimeout), "Provider timed out after 2s");
}

#[test]
fn the_policy_is_asked_before_a_tool_is_used() {
    let mut scene = Scene::new("denied-tool");
    scene.agent.bootstrap["policy"] = json!({"default": "deny"});
    let said = scene.run();
    let arguments = scene.arguments();
    assert!(arguments.iter().any(|argument| argument == "--permission-prompt-tool"));
    assert!(!arguments.iter().any(|argument| argument == "--dangerously-skip-permissions"));
    let input = scene.input();
    assert!(input[0]["request"]["hooks"]["PreToolUse"].is_array());
    let answer = &input[2]["response"]["response"]["hookSpecificOutput"];
    assert_eq!(answer["permissionDecision"], "deny");
    let failed =
        |event: &Event| matches!(event, Event::StepEnded { outcome: Outcome::Failed { .. }, .. });
    assert!(said.events.iter().any(failed), "{:?}", said.events);
}
