//! Whole turns with recorded transcripts of the real CLIs: a program that
//! prints what they printed, each answer once its question is asked.
//!
//! The transcripts are shortened: lists of models and of commands are left out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use wire::run::{ErrorCode, Event, Outcome, StepId};

use super::message::Incoming;
use super::{Asides, Dialect, Job, Manner, run};
use crate::emit::kept::Kept;
use crate::failure::Failure;
use crate::harness::Finished;
use crate::session::Session;

/// A turn that a transcript answers.
struct Replay {
    ended: Result<Finished, Failure>,
    events: Vec<Event>,
    /// What the CLI was told, line by line.
    told: Vec<Value>,
}

impl Replay {
    async fn of(dialect: Dialect, name: &str) -> Replay {
        Replay::with(dialect, name, |_| {}).await
    }

    async fn with(dialect: Dialect, name: &str, set: impl FnOnce(&mut Session)) -> Replay {
        Replay::playing(dialect, &transcript(dialect, name), set).await
    }

    async fn playing(dialect: Dialect, text: &str, set: impl FnOnce(&mut Session)) -> Replay {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("cli");
        fs::write(&program, player(text, directory.path())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut session = Session::for_test(directory.path(), directory.path());
        session.prompt = "go".to_owned();
        set(&mut session);
        let kept = Kept::default();
        let out = kept.emitter();
        let job = Job::new(&session, &out);
        let child = job.spawn(job.command(&program)).unwrap();
        let manner = Manner {
            program: "cli",
            dialect,
            meta: Map::new(),
            model: None,
            connected: (dialect == Dialect::Grok).then_some(CONNECTED),
            asides: Asides::none(),
        };
        let ended = run(&job, child, manner).await;
        let told = fs::read_to_string(directory.path().join("told")).unwrap_or_default();
        let told = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Replay { ended, events: kept.events(), told }
    }

    fn message(&self) -> &str {
        &self.ended.as_ref().unwrap().message
    }

    /// The steps: name, arguments and outcome.
    fn steps(&self) -> Vec<(&str, &Value, &Outcome)> {
        let ends = |wanted: &StepId| {
            let mut ends = self.events.iter().filter_map(|event| {
                let Event::StepEnded { id, outcome, .. } = event else { return None };
                (id == wanted).then_some(outcome)
            });
            let end = ends.next().unwrap();
            assert!(ends.next().is_none(), "{:?}", self.events);
            end
        };
        let steps = self.events.iter().filter_map(|event| {
            let Event::StepStarted { id, name, args } = event else { return None };
            Some((name.as_str(), args, ends(id)))
        });
        steps.collect()
    }

    fn texts(&self) -> Vec<(&str, &str)> {
        let texts = self.events.iter().filter_map(|event| {
            let Event::Text { message_id, delta } = event else { return None };
            Some((message_id.as_str(), delta.as_str()))
        });
        texts.collect()
    }

    fn methods(&self) -> Vec<&str> {
        self.told.iter().map(|line| line["method"].as_str().unwrap_or("answer")).collect()
    }

    fn announced(&self) -> Vec<&Event> {
        let is = |event: &&Event| matches!(event, Event::Custom { name, .. } if name.ends_with(".session-id"));
        self.events.iter().filter(is).collect()
    }
}

fn transcript(dialect: Dialect, name: &str) -> String {
    let harness = match dialect {
        Dialect::Opencode => "opencode",
        Dialect::Grok => "grok-build",
    };
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    fs::read_to_string(root.join(harness).join(format!("{name}.jsonl"))).unwrap()
}

/// A program that waits for a line, notes it, and prints what the CLI printed
/// then: up to its next answer, or up to its next question. What has to come
/// before the next line comes with the answer. It ends when it has nothing left
/// to print.
fn player(transcript: &str, directory: &Path) -> String {
    let mut blocks = vec![String::new()];
    let mut lines = transcript.lines().peekable();
    while let Some(line) = lines.next() {
        let last = blocks.last_mut().unwrap();
        last.push_str(line);
        last.push('\n');
        let awaited = |line: &&str| line.contains(CONNECTED);
        let is_notice = matches!(Incoming::parse(line), Some(Incoming::Notice { .. }));
        if awaited(&line) || !(is_notice || lines.peek().is_some_and(awaited)) {
            blocks.push(String::new());
        }
    }
    for (number, block) in blocks.iter().enumerate() {
        fs::write(directory.join(format!("block{number}")), block).unwrap();
    }
    let directory = directory.display();
    format!(
        "#!/bin/sh\nn=0\nwhile read -r line; do\n  printf '%s\\n' \"$line\" >> {directory}/told\n  \
         cat {directory}/block$n\n  n=$((n + 1))\n  [ -e {directory}/block$n ] || exit 3\ndone\n"
    )
}

/// What Grok Build says once it is connected to MCP servers.
const CONNECTED: &str = "_x.ai/mcp_initialized";

const BOTH: [Dialect; 2] = [Dialect::Opencode, Dialect::Grok];

#[tokio::test]
async fn text_and_thoughts_come_in_pieces() {
    for dialect in BOTH {
        let replay = Replay::of(dialect, "text").await;
        assert_eq!(replay.message(), "Hello there.");
        assert_eq!(replay.texts(), [("msg_1", "Hello "), ("msg_1", "there.")]);
        let thought = Event::Reasoning {
            message_id: "msg_1".to_owned(),
            delta: "Thinking about it. ".to_owned(),
        };
        assert!(replay.events.contains(&thought), "{:?}", replay.events);
        let methods = ["initialize", "session/new", "session/prompt", "session/close"];
        assert_eq!(replay.methods(), methods);
        // The session is told first, and once.
        assert_eq!(replay.announced(), [&replay.events[0]]);
        let session_id = replay.ended.as_ref().unwrap().session_id.clone();
        assert!(matches!(&replay.events[0], Event::Custom { value, .. }
            if value["sessionId"].as_str() == session_id.as_deref()));
    }
}

#[tokio::test]
async fn a_tool_that_writes_a_file_is_a_step() {
    let good = |result: &str| Outcome::Succeeded { result: json!(result), truncated: false };
    let command = json!({"command": "echo from-tool > hello.txt && cat hello.txt",
        "description": "d"});
    let replay = Replay::of(Dialect::Opencode, "tool").await;
    let write = json!({"filePath": "/root/workspace/w.txt", "content": "written\n"});
    let (ran, wrote) = (good("from-tool\n"), good("Wrote file successfully."));
    assert_eq!(replay.steps(), [("bash", &command, &ran), ("write", &write, &wrote)]);
    assert_eq!(replay.message(), "All done.");
    let texts = [("msg_1", "Let me run. "), ("msg_2", "Now write. "), ("msg_3", "All done.")];
    assert_eq!(replay.texts(), texts);
    let replay = Replay::of(Dialect::Grok, "tool").await;
    let write = json!({"file_path": "w.txt", "old_string": "", "new_string": "written\n"});
    let wrote = good("The file w.txt has been created successfully.");
    let steps = [("run_terminal_command", &command, &ran), ("search_replace", &write, &wrote)];
    assert_eq!(replay.steps(), steps);
    assert_eq!(replay.texts(), texts);
}

#[tokio::test]
async fn a_command_that_fails_is_a_step_that_failed() {
    for dialect in BOTH {
        let replay = Replay::of(dialect, "failing-command").await;
        let failed =
            Outcome::Failed { error: "exit status 3".to_owned(), result: Some(json!("oops\n")) };
        assert!(matches!(replay.steps()[..], [(_, _, outcome)] if *outcome == failed));
        assert_eq!(replay.message(), "It failed.");
    }
}

#[tokio::test]
async fn a_failing_model_ends_the_run_in_the_providers_words() {
    for dialect in BOTH {
        let replay = Replay::of(dialect, "failing-model").await;
        let failure = replay.ended.unwrap_err();
        assert_eq!(failure.code, ErrorCode::ModelError);
        assert!(failure.message.contains("fake 400 error"), "{}", failure.message);
    }
}

#[tokio::test]
async fn what_was_said_before_a_session_went_on_is_not_told_again() {
    for dialect in BOTH {
        let transcript = transcript(dialect, "resumed");
        assert!(transcript.contains("Now write. "), "there is something to tell again");
        let id = transcript.split("\"sessionId\":\"").nth(1).unwrap();
        let id = id.split('"').next().unwrap().to_owned();
        let set = |session: &mut Session| session.resume = Some(id.clone());
        let replay = Replay::with(dialect, "resumed", set).await;
        let methods = ["initialize", "session/load", "session/prompt", "session/close"];
        assert_eq!(replay.methods(), methods);
        assert_eq!(replay.texts(), [("msg_1", "You said 2 things.")]);
        assert_eq!(replay.steps(), []);
        assert_eq!(replay.announced().len(), 1);
        assert_eq!(replay.ended.unwrap().session_id, Some(id));
    }
}

#[tokio::test]
async fn a_session_that_the_cli_does_not_know_is_a_bad_request() {
    for dialect in BOTH {
        let set = |session: &mut Session| session.resume = Some("gone".to_owned());
        let replay = Replay::with(dialect, "unknown-session", set).await;
        assert_eq!(replay.methods(), ["initialize", "session/resume"]);
        assert_eq!(replay.announced().len(), 0);
        let failure = replay.ended.unwrap_err();
        assert_eq!(failure.code, ErrorCode::BadRequest);
        assert!(failure.message.starts_with("session `gone` cannot go on: "), "{failure}");
    }
}

#[tokio::test]
async fn tools_of_servers_are_steps_and_the_callers_tools_are_not() {
    let set = |session: &mut Session| {
        let tool = json!({"name": "echo_fact"});
        session.tools = vec![serde_json::from_value(tool).unwrap()];
        session.bridge.url = "http://127.0.0.1:8080/tools".to_owned();
        let facts = json!({"transport": "http", "name": "facts", "url": "http://127.0.0.1/"});
        session.config.mcp_servers = vec![serde_json::from_value(facts).unwrap()];
    };
    for dialect in BOTH {
        let replay = Replay::with(dialect, "servers", set).await;
        let steps = replay.steps();
        let (name, args, outcome) = *steps.last().unwrap();
        assert_eq!(name, "mcp__facts__echo_fact");
        let fact = args["fact"].as_str().unwrap();
        let result = json!(format!("fact: {fact}"));
        assert_eq!(*outcome, Outcome::Succeeded { result, truncated: false });
        assert!(steps.iter().all(|(name, ..)| !name.contains("mayfly")), "{steps:?}");
        let offered = replay.told[1]["params"]["mcpServers"].as_array().unwrap();
        let names: Vec<&str> =
            offered.iter().map(|server| server["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["mayfly", "facts"]);
    }
    let replay = Replay::with(Dialect::Opencode, "bridged", set).await;
    assert_eq!(replay.steps(), []);
    assert_eq!(replay.message(), "Fact told.");
}

#[tokio::test]
async fn a_model_is_told_what_the_policy_denies_and_goes_on() {
    let set = |session: &mut Session| {
        let policy = json!({"commands": {"deny": ["echo *"]}, "default": "allow"});
        session.policy = Some(serde_json::from_value(policy).unwrap());
    };
    for dialect in BOTH {
        let replay = Replay::with(dialect, "denied", set).await;
        let asked = ["initialize", "session/new", "session/prompt", "answer", "session/prompt"];
        assert_eq!(replay.methods()[..5], asked);
        let chosen = &replay.told[3]["result"]["outcome"]["optionId"];
        assert!(chosen.as_str().unwrap().starts_with("reject"), "{chosen}");
        let steps = replay.steps();
        let [(_, _, Outcome::Failed { error, .. })] = &steps[..] else { panic!("{steps:?}") };
        assert!(error.contains("the policy denies the command"), "{error}");
        let reminder = replay.told[4]["params"]["prompt"][0]["text"].as_str().unwrap();
        assert!(reminder.contains(error.as_str()), "{reminder}");
        assert_eq!(replay.message(), "Hello there.");
    }
}

#[tokio::test]
async fn a_cli_that_ends_early_ends_the_run() {
    for (lines, step) in [(0, 0), (2, 0), (6, 1)] {
        let text = transcript(Dialect::Opencode, "tool");
        let text: String = text.lines().take(lines).map(|line| format!("{line}\n")).collect();
        let replay = Replay::playing(Dialect::Opencode, &text, |_| {}).await;
        let failure = replay.ended.as_ref().unwrap_err();
        assert_eq!(failure.code, ErrorCode::Internal);
        assert!(failure.message.contains("`cli` ended without a result"), "{failure}");
        // What ran is not left open.
        assert_eq!(replay.steps().len(), step);
    }
}
