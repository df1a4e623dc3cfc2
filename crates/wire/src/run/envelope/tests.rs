//! Golden lines of the envelope, what is no line of it, and the stream's rules.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{EnvelopeChecker, EnvelopeLine, EnvelopeProjector, Progress, Violation};
use crate::run::{
    BadLine, ErrorCode, Event, FileChange, LINE_LIMIT, Level, Outcome, RunEvent, RunId, StepId,
};

fn id() -> StepId {
    StepId::parse("step_8f3").unwrap()
}

/// Projects an event of the seed's recipe, which may end a step that began.
fn project(ts: u64, event: Event) -> Option<EnvelopeLine> {
    let mut projector = EnvelopeProjector::new();
    if let Event::StepEnded { .. } = event {
        let started =
            Event::StepStarted { id: id(), name: "recipes/add-node.sh".into(), args: Value::Null };
        projector.project(&RunEvent { seq: 1, ts: 0, line: None, event: started });
    }
    projector.project(&RunEvent { seq: 2, ts, line: None, event })
}

#[track_caller]
fn check(ts: u64, event: Event, expected: &str) {
    let line = project(ts, event).expect("the envelope shows this");
    assert_eq!(line.to_line(), format!("{expected}\n"));
    assert_eq!(EnvelopeLine::parse(expected.as_bytes()), Ok(line));
}

#[test]
fn a_log_line_is_as_in_the_seed() {
    check(
        1_700_000_000_000,
        Event::Log { level: Level::Info, message: "Loaded 3 skills".into() },
        r#"{"type":"log","level":"info","message":"Loaded 3 skills","ts":1700000000000}"#,
    );
    for (level, name) in [(Level::Debug, "debug"), (Level::Warn, "warn"), (Level::Error, "error")] {
        check(
            1,
            Event::Log { level, message: String::new() },
            &format!(r#"{{"type":"log","level":"{name}","message":"","ts":1}}"#),
        );
    }
}

#[test]
fn a_running_step_is_as_in_the_seed() {
    check(
        1_700_000_000_123,
        Event::StepStarted {
            id: id(),
            name: "recipes/add-node.sh".into(),
            args: json!({ "nodeType": "inference" }),
        },
        r#"{"type":"step","id":"step_8f3","name":"recipes/add-node.sh","status":"running","args":{"nodeType":"inference"},"ts":1700000000123}"#,
    );
}

#[test]
fn a_step_that_succeeded_is_as_in_the_seed() {
    let ended = |result, truncated| Event::StepEnded {
        id: id(),
        outcome: Outcome::Succeeded { result, truncated },
        duration_ms: 412,
    };
    check(
        1_700_000_000_535,
        ended(json!({ "nodeId": "node_1" }), false),
        r#"{"type":"step","id":"step_8f3","name":"recipes/add-node.sh","status":"succeeded","result":{"nodeId":"node_1"},"durationMs":412,"ts":1700000000535}"#,
    );
    check(
        1,
        ended(json!("beginning"), true),
        r#"{"type":"step","id":"step_8f3","name":"recipes/add-node.sh","status":"succeeded","result":"beginning","truncated":true,"durationMs":412,"ts":1}"#,
    );
}

#[test]
fn a_step_that_failed_has_its_message() {
    for result in [None, Some(json!(1))] {
        check(
            1_700_000_000_535,
            Event::StepEnded {
                id: id(),
                outcome: Outcome::Failed { error: "exit status 1".into(), result },
                duration_ms: 412,
            },
            r#"{"type":"step","id":"step_8f3","name":"recipes/add-node.sh","status":"failed","error":"exit status 1","durationMs":412,"ts":1700000000535}"#,
        );
    }
}

#[test]
fn a_result_is_as_in_the_seed() {
    check(
        1_700_000_000_999,
        Event::Result { message: "Added an Inference node…".into() },
        r#"{"type":"result","message":"Added an Inference node…","ts":1700000000999}"#,
    );
}

#[test]
fn an_error_is_as_in_the_seed() {
    check(
        1_700_000_001_000,
        Event::Error {
            code: ErrorCode::ModelTimeout,
            message: "Provider timed out after 60s".into(),
        },
        r#"{"type":"error","code":"model_timeout","message":"Provider timed out after 60s","ts":1700000001000}"#,
    );
}

#[test]
fn what_the_envelope_does_not_know_is_not_shown() {
    for event in [
        Event::Started {
            run_id: RunId::from_random([0; 15]),
            sandbox_id: None,
            harness: "builtin".into(),
            provider: None,
            model: None,
            thread_id: None,
            client_run_id: None,
        },
        Event::Text { message_id: "m".into(), delta: "d".into() },
        Event::Reasoning { message_id: "m".into(), delta: "d".into() },
        Event::Usage {
            input_tokens: 1,
            output_tokens: 1,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
        },
        Event::File { change: FileChange::Create, path: "a".into() },
        Event::Uploaded { files: Vec::new() },
        Event::Custom { name: "n".into(), value: Value::Null },
    ] {
        assert_eq!(project(1, event), None);
    }
}

#[track_caller]
fn refused(line: &str, expected: BadLine) {
    assert_eq!(EnvelopeLine::parse(line.as_bytes()), Err(expected), "{line}");
}

fn wrong(field: &'static str, expected: &'static str) -> BadLine {
    BadLine::Wrong { field, expected }
}

#[test]
fn an_unknown_type_is_refused() {
    refused(r#"{"type":"text","delta":"x"}"#, BadLine::UnknownType("text".into()));
    refused(r#"{"type":"LOG","level":"info","message":"m"}"#, BadLine::UnknownType("LOG".into()));
    refused(r#"{"type":1}"#, wrong("type", "a string"));
    let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(1000));
    refused(&long, BadLine::UnknownType("x".repeat(120)));
}

#[test]
fn an_unknown_level_or_status_is_refused() {
    refused(
        r#"{"type":"log","level":"fatal","message":"m"}"#,
        wrong("level", "`debug`, `info`, `warn` or `error`"),
    );
    refused(
        r#"{"type":"step","id":"step_1","name":"n","status":"done"}"#,
        wrong("status", "`running`, `succeeded` or `failed`"),
    );
    refused(
        r#"{"type":"step","id":"1","name":"n","status":"running","args":{}}"#,
        wrong("id", "a step id"),
    );
}

#[test]
fn a_missing_field_is_named() {
    refused("{}", BadLine::Missing("type"));
    let whole = [
        r#"{"type":"log","level":"info","message":"m"}"#,
        r#"{"type":"step","id":"step_1","name":"n","status":"running","args":null}"#,
        r#"{"type":"step","id":"step_1","name":"n","status":"succeeded","result":null,"durationMs":1}"#,
        r#"{"type":"step","id":"step_1","name":"n","status":"failed","error":"e"}"#,
        r#"{"type":"result","message":"m"}"#,
        r#"{"type":"error","code":"c","message":"m"}"#,
    ];
    for line in whole {
        assert!(EnvelopeLine::parse(line.as_bytes()).is_ok(), "{line}");
        let fields: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        for field in fields.keys() {
            let mut fewer = fields.clone();
            fewer.remove(field);
            let line = serde_json::to_string(&fewer).unwrap();
            match EnvelopeLine::parse(line.as_bytes()) {
                Err(BadLine::Missing(missing)) => assert_eq!(missing, field),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_time_may_be_left_out_and_unknown_fields_are_passed_over() {
    let line = br#"{"more":[1],"message":"m","type":"result"}"#;
    let expected = EnvelopeLine::Result { message: "m".into(), ts: None };
    assert_eq!(EnvelopeLine::parse(line), Ok(expected.clone()));
    assert_eq!(expected.to_line(), "{\"type\":\"result\",\"message\":\"m\"}\n");
    for ts in ["-1", "1.5", "null", "\"1\""] {
        let line = format!(r#"{{"type":"result","message":"m","ts":{ts}}}"#);
        refused(&line, wrong("ts", "a number of milliseconds"));
    }
}

#[test]
fn what_is_not_one_object_on_one_line_is_refused() {
    for line in ["", " ", "null", "[]", "\"x\"", "data: {}", ": comment"] {
        refused(line, BadLine::NotAnObject);
    }
    for line in ["{", "{\"type\":\"log\"", "{} {}", "{\"a\":}", "{'a':1}", "{\"a\":1e999}"] {
        refused(line, BadLine::NotJson);
    }
    assert_eq!(EnvelopeLine::parse(b"{\"type\":\"\xff\"}"), Err(BadLine::NotJson));
    refused("{\"type\":\n\"log\"}", BadLine::LineBreak);
    refused(r#"{"type":"log","type":"result"}"#, BadLine::Duplicate("type".into()));
    let long = format!("{{\"type\":\"result\",\"message\":\"{}\"}}", "m".repeat(LINE_LIMIT));
    refused(&long, BadLine::TooLong { limit: LINE_LIMIT });
}

fn step(number: u64, name: &str, progress: Progress) -> EnvelopeLine {
    EnvelopeLine::Step { id: StepId::from_number(number), name: name.into(), progress, ts: None }
}

fn running(number: u64) -> EnvelopeLine {
    step(number, "n", Progress::Running { args: Value::Null })
}

fn failed(number: u64) -> EnvelopeLine {
    step(number, "n", Progress::Failed { error: "e".into(), duration_ms: None })
}

fn result() -> EnvelopeLine {
    EnvelopeLine::Result { message: "m".into(), ts: None }
}

fn error() -> EnvelopeLine {
    EnvelopeLine::Error { code: "internal".into(), message: "m".into(), ts: None }
}

#[track_caller]
fn check_stream(lines: &[EnvelopeLine], expected: Result<(), Violation>) {
    let mut checker = EnvelopeChecker::new();
    let verdict = lines.iter().try_for_each(|line| checker.check(line));
    assert_eq!(verdict.and_then(|()| checker.finish()), expected);
}

#[test]
fn a_stream_that_keeps_the_rules_is_accepted() {
    check_stream(&[result()], Ok(()));
    check_stream(&[error()], Ok(()));
    let log = EnvelopeLine::Log { level: Level::Info, message: "m".into(), ts: None };
    check_stream(
        &[running(1), log, running(2), running(1), failed(2), failed(1), result()],
        Ok(()),
    );
}

#[test]
fn a_stream_has_one_terminal_line_and_it_is_the_last() {
    check_stream(&[], Err(Violation::NoEnd));
    check_stream(&[running(1), failed(1)], Err(Violation::NoEnd));
    for (first, second) in [(result(), error()), (error(), result()), (result(), running(1))] {
        check_stream(&[first, second], Err(Violation::AfterTheEnd));
    }
    check_stream(&[running(1), result()], Err(Violation::StepsRunning { running: 1 }));
    check_stream(&[running(1), error()], Err(Violation::StepsRunning { running: 1 }));
}

#[test]
fn a_step_runs_first_and_ends_once_under_its_name() {
    let id = StepId::from_number(1);
    check_stream(&[failed(1)], Err(Violation::NeverRunning(id.clone())));
    let ended = Err(Violation::AfterItsEnd(id.clone()));
    check_stream(&[running(1), failed(1), failed(1)], ended.clone());
    check_stream(&[running(1), failed(1), running(1)], ended);
    let other = step(1, "other", Progress::Failed { error: "e".into(), duration_ms: Some(1) });
    check_stream(&[running(1), other], Err(Violation::Renamed(id)));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        line in prop::collection::vec(any::<u8>(), 0..200),
        text in "\\{\"type\":\"(log|step|result|error)\",.{0,60}\\}?",
    ) {
        let _ = EnvelopeLine::parse(&line);
        if let Ok(line) = EnvelopeLine::parse(text.as_bytes()) {
            prop_assert_eq!(EnvelopeLine::parse(line.to_line().as_bytes()), Ok(line));
        }
    }
}
