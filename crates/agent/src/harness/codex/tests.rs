//! The whole adapter against a program that writes what Codex wrote once.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tempfile::TempDir;
use wire::agent::Harness;
use wire::run::{ErrorCode, Event};

use super::{Finished, SESSIONS, run, session_files};
use crate::emit::kept::Kept;
use crate::failure::Failure;
use crate::harness::job::Job;
use crate::session::Session;

macro_rules! transcript {
    ($name:literal) => {
        include_str!(concat!("../../../tests/transcripts/codex/", $name, ".jsonl"))
    };
}

/// A home with a `codex` in it that writes a transcript, whatever it is told.
struct Stage {
    home: TempDir,
    session: Session,
}

/// What came of a turn.
struct Played {
    ended: Result<Finished, Failure>,
    kept: Kept,
    /// What Codex was told.
    told: Vec<Value>,
}

impl Stage {
    fn new(transcript: &str) -> Stage {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::write(path("transcript"), transcript).unwrap();
        let script = "#!/bin/sh\ncat \"$HOME/transcript\"\nexec cat > \"$HOME/told\"\n";
        fs::write(path("codex"), script).unwrap();
        fs::set_permissions(path("codex"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut session = Session::for_test(home.path(), home.path());
        session.harness = Harness::Codex;
        session.prompt = "Do it.".to_owned();
        let model = json!({"provider": "openai-responses", "name": "fake-model"});
        session.config = serde_json::from_value(json!({"model": model})).unwrap();
        session.variables.set("PATH", format!("{}:/usr/bin:/bin", home.path().display()));
        Stage { home, session }
    }

    async fn play(&self) -> Played {
        let kept = Kept::default();
        let out = kept.emitter();
        let ended = run(&mut Job::new(&self.session, &out)).await;
        let told = fs::read_to_string(self.home.path().join("told")).unwrap_or_default();
        let told = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Played { ended, kept, told }
    }
}

impl Played {
    /// The session was told once, and before anything else.
    fn announced(&self, thread: &str) {
        let value = json!({"sessionId": thread});
        assert_eq!(self.kept.customs("codex.session-id"), [value]);
        assert!(matches!(&self.kept.events()[0], Event::Custom { .. }));
    }
}

/// The thread of a transcript.
fn thread_of(transcript: &str) -> String {
    let lines = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut ids = lines.filter_map(|line| Some(line["params"]["threadId"].as_str()?.to_owned()));
    ids.next().unwrap()
}

#[tokio::test]
async fn a_turn_is_told_from_its_session_to_its_message() {
    let transcript = transcript!("tool");
    let mut stage = Stage::new(transcript);
    stage.session.config.system_prompt = "Be brief.".to_owned();
    let played = stage.play().await;
    let thread = thread_of(transcript);
    let finished = Finished { message: "All done.".to_owned(), session_id: Some(thread.clone()) };
    assert_eq!(played.ended, Ok(finished));
    played.announced(&thread);
    let events = played.kept.events();
    let steps = events.iter().filter(|event| matches!(event, Event::StepEnded { .. }));
    assert_eq!(steps.count(), 2);
    let methods: Vec<&str> =
        played.told.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "initialized", "thread/start", "turn/start"]);
    let params = &played.told[2]["params"];
    assert_eq!(params["approvalPolicy"], "never");
    assert_eq!(params["sandbox"], "danger-full-access");
    assert_eq!(params["developerInstructions"], "Be brief.");
    assert_eq!(played.told[3]["params"]["threadId"], *thread);
    assert_eq!(played.told[3]["params"]["input"][0]["text"], "Do it.");
}

#[tokio::test]
async fn a_session_goes_on_by_its_id() {
    let transcript = transcript!("resumed");
    let thread = thread_of(transcript);
    let mut stage = Stage::new(transcript);
    stage.session.resume = Some(thread.clone());
    let played = stage.play().await;
    played.announced(&thread);
    assert_eq!(played.ended.unwrap().session_id.as_deref(), Some(thread.as_str()));
    assert_eq!(played.told[2]["method"], "thread/resume");
    assert_eq!(played.told[2]["params"]["threadId"], *thread);
}

#[tokio::test]
async fn a_session_that_codex_does_not_know_is_a_bad_request() {
    let mut stage = Stage::new(transcript!("unknown"));
    stage.session.resume = Some("01a1e26b-0000-7603-b34a-87fb2cc67aa0".to_owned());
    let failure = stage.play().await.ended.unwrap_err();
    assert_eq!(failure.code, ErrorCode::BadRequest);
    assert!(failure.message.contains("no rollout found"), "{}", failure.message);
}

#[tokio::test]
async fn a_provider_that_refuses_is_a_model_error_of_a_session_that_is_known() {
    let transcript = transcript!("refused");
    let played = Stage::new(transcript).play().await;
    played.announced(&thread_of(transcript));
    let failure = played.ended.unwrap_err();
    assert_eq!(failure.code, ErrorCode::ModelError);
    assert!(failure.message.contains("the provider says no"), "{}", failure.message);
}

#[tokio::test]
async fn with_a_policy_codex_asks_and_is_answered() {
    let mut stage = Stage::new(transcript!("denied"));
    let policy = json!({"commands": {"deny": ["echo *"]}, "capabilities": {"fileWrite": "deny"}});
    stage.session.policy = serde_json::from_value(policy).unwrap();
    let played = stage.play().await;
    assert_eq!(played.ended.unwrap().message, "All done.");
    let params = &played.told[2]["params"];
    assert_eq!(
        (&params["approvalPolicy"], &params["sandbox"]),
        (&json!("untrusted"), &json!("read-only"))
    );
    let declined = |id: u64| json!({"id": id, "result": {"decision": "decline"}});
    assert_eq!(played.told[4..], [declined(0), declined(1)]);
    let questions = played.kept.customs("approval-requested");
    assert_eq!(questions.len(), 1);
    assert_eq!(questions[0]["approvalId"], "codex:command:cat missing.txt");
}

#[tokio::test]
async fn a_codex_that_dies_says_what_it_complained_of() {
    let transcript = transcript!("tool");
    let half: Vec<&str> = transcript.lines().take_while(|line| !line.contains("call_8")).collect();
    let stage = Stage::new(&half.join("\n"));
    let script = "#!/bin/sh\ncat \"$HOME/transcript\"\nread _; read _; read _; read _\n\
                  echo no space >&2\nexit 3\n";
    fs::write(stage.home.path().join("codex"), script).unwrap();
    let failure = stage.play().await.ended.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Internal);
    assert!(failure.message.ends_with(": no space"), "{}", failure.message);
}

#[tokio::test]
async fn other_providers_and_missing_programs_are_refused() {
    let stage = Stage::new("");
    fs::remove_file(stage.home.path().join("codex")).unwrap();
    let failure = stage.play().await.ended.unwrap_err();
    assert_eq!(failure.code, ErrorCode::BadRequest);
    assert!(failure.message.contains("add-harness codex"), "{}", failure.message);
    let mut stage = Stage::new("");
    stage.session.config.model = serde_json::from_value(json!({"provider": "anthropic"})).unwrap();
    let failure = stage.play().await.ended.unwrap_err();
    assert_eq!(failure.code, ErrorCode::BadRequest);
    assert!(failure.message.contains("`openai-responses`"), "{}", failure.message);
}

#[test]
fn the_files_of_a_session_are_found_by_its_id() {
    let home = tempfile::tempdir().unwrap();
    let session = Session::for_test(home.path(), home.path());
    assert!(session_files(&session, "id").is_empty());
    let day = home.path().join(SESSIONS).join("2026/11/16");
    fs::create_dir_all(day.join("rollout-x-id.jsonl")).unwrap();
    let ours = day.join("rollout-2026-11-16T03-36-59-id.jsonl");
    for name in ["rollout-2026-11-16T03-36-59-id.jsonl", "rollout-x-other.jsonl", "notes-id.jsonl"]
    {
        fs::write(day.join(name), "").unwrap();
    }
    assert_eq!(session_files(&session, "id"), [ours]);
}
