//! Golden lines of every event. A later version has to read each of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{BadLine, to_raw};
use crate::{
    SandboxId,
    run::{
        AgentLine, ErrorCode, Event, FileChange, LINE_LIMIT, Level, Outcome, RunEvent, RunId,
        StepId, UploadedFile, limits::VALUES_LIMIT,
    },
};

#[track_caller]
fn check(event: Event, expected: &str) {
    let entry = RunEvent { seq: 7, ts: 1_700_000_000_000, line: None, event };
    let line = format!("{{\"seq\":7,\"ts\":1700000000000,{expected}}}\n");
    assert_eq!(to_raw(&entry), line);
    assert_eq!(RunEvent::parse_line(line.as_bytes()), Ok(entry.clone()));
    let agent = AgentLine { n: 7, ts: entry.ts, event: entry.event };
    let line = format!("{{\"n\":7,\"ts\":1700000000000,{expected}}}\n");
    assert_eq!(agent.to_line(), line);
    assert_eq!(AgentLine::parse_line(line.as_bytes()), Ok(agent));
}

#[test]
fn the_line_that_an_entry_came_from_has_golden_bytes() {
    let event = Event::Result { message: "m".into() };
    let entry = RunEvent { seq: 7, ts: 2, line: Some(3), event };
    let line = "{\"seq\":7,\"ts\":2,\"line\":3,\"type\":\"result\",\"message\":\"m\"}\n";
    assert_eq!(to_raw(&entry), line);
    assert_eq!(RunEvent::parse_line(line.as_bytes()), Ok(entry));
}

fn step() -> StepId {
    StepId::parse("step_8f3").unwrap()
}

#[test]
fn the_beginning_has_golden_bytes() {
    let run_id = RunId::from_random([1; 15]);
    check(
        Event::Started {
            run_id: run_id.clone(),
            sandbox_id: Some(SandboxId::parse("i1a2").unwrap()),
            harness: "builtin".into(),
            provider: Some("anthropic".into()),
            model: Some("m-1".into()),
            thread_id: None,
            client_run_id: None,
        },
        "\"type\":\"started\",\"run_id\":\"run_040g2081040g2081040g2081\",\"sandbox_id\":\"i1a2\",\
         \"harness\":\"builtin\",\"provider\":\"anthropic\",\"model\":\"m-1\"",
    );
    check(
        Event::Started {
            run_id,
            sandbox_id: None,
            harness: "codex".into(),
            provider: None,
            model: None,
            thread_id: None,
            client_run_id: None,
        },
        "\"type\":\"started\",\"run_id\":\"run_040g2081040g2081040g2081\",\"harness\":\"codex\"",
    );
}

#[test]
fn what_is_said_has_golden_bytes() {
    for (level, name) in [
        (Level::Debug, "debug"),
        (Level::Info, "info"),
        (Level::Warn, "warn"),
        (Level::Error, "error"),
    ] {
        check(
            Event::Log { level, message: "Loaded 3 skills".into() },
            &format!("\"type\":\"log\",\"level\":\"{name}\",\"message\":\"Loaded 3 skills\""),
        );
    }
    check(
        Event::Text { message_id: "m1".into(), delta: "a\nä".into() },
        "\"type\":\"text\",\"message_id\":\"m1\",\"delta\":\"a\\nä\"",
    );
    check(
        Event::Reasoning { message_id: "m1".into(), delta: "hm".into() },
        "\"type\":\"reasoning\",\"message_id\":\"m1\",\"delta\":\"hm\"",
    );
    check(
        Event::Custom { name: "codex.session-id".into(), value: json!({ "sessionId": "s" }) },
        "\"type\":\"custom\",\"name\":\"codex.session-id\",\"value\":{\"sessionId\":\"s\"}",
    );
}

#[test]
fn steps_have_golden_bytes() {
    check(
        Event::StepStarted {
            id: step(),
            name: "recipes/add-node.sh".into(),
            args: json!({ "nodeType": "inference" }),
        },
        "\"type\":\"step_started\",\"id\":\"step_8f3\",\"name\":\"recipes/add-node.sh\",\
         \"args\":{\"nodeType\":\"inference\"}",
    );
    let ended = |outcome| Event::StepEnded { id: step(), outcome, duration_ms: 412 };
    check(
        ended(Outcome::Succeeded { result: Value::Null, truncated: false }),
        "\"type\":\"step_ended\",\"id\":\"step_8f3\",\"status\":\"succeeded\",\"result\":null,\
         \"duration_ms\":412",
    );
    check(
        ended(Outcome::Succeeded { result: json!("abc"), truncated: true }),
        "\"type\":\"step_ended\",\"id\":\"step_8f3\",\"status\":\"succeeded\",\"result\":\"abc\",\
         \"truncated\":true,\"duration_ms\":412",
    );
    check(
        ended(Outcome::Failed { error: "exit 1".into(), result: None }),
        "\"type\":\"step_ended\",\"id\":\"step_8f3\",\"status\":\"failed\",\"error\":\"exit 1\",\
         \"duration_ms\":412",
    );
    check(
        ended(Outcome::Failed { error: "exit 1".into(), result: Some(json!([1, 0.1])) }),
        "\"type\":\"step_ended\",\"id\":\"step_8f3\",\"status\":\"failed\",\"error\":\"exit 1\",\
         \"result\":[1,0.1],\"duration_ms\":412",
    );
}

#[test]
fn tokens_and_files_have_golden_bytes() {
    check(
        Event::Usage {
            input_tokens: 10,
            output_tokens: 20,
            cache_read_tokens: 3,
            cache_write_tokens: 0,
        },
        "\"type\":\"usage\",\"input_tokens\":10,\"output_tokens\":20,\"cache_read_tokens\":3,\
         \"cache_write_tokens\":0",
    );
    for (change, name) in [
        (FileChange::Create, "create"),
        (FileChange::Change, "change"),
        (FileChange::Delete, "delete"),
    ] {
        check(
            Event::File { change, path: "src/a.rs".into() },
            &format!("\"type\":\"file\",\"change\":\"{name}\",\"path\":\"src/a.rs\""),
        );
    }
    let file = UploadedFile {
        id: "f1".into(),
        name: "a b.txt".into(),
        mime_type: "text/plain".into(),
        size: 3,
        sha256: "ba78".into(),
        storage_key: "k/a".into(),
    };
    check(
        Event::Uploaded { files: vec![file] },
        "\"type\":\"uploaded\",\"files\":[{\"id\":\"f1\",\"name\":\"a b.txt\",\
         \"mimeType\":\"text/plain\",\"size\":3,\"sha256\":\"ba78\",\"storageKey\":\"k/a\"}]",
    );
}

#[test]
fn ends_have_golden_bytes() {
    check(
        Event::Result { message: "Added an Inference node…".into() },
        "\"type\":\"result\",\"message\":\"Added an Inference node…\"",
    );
    for code in ErrorCode::ALL {
        check(
            Event::Error { code, message: "no".into() },
            &format!("\"type\":\"error\",\"code\":\"{code}\",\"message\":\"no\""),
        );
    }
}

#[track_caller]
fn refused(line: &[u8], expected: BadLine) {
    assert_eq!(RunEvent::parse_line(line), Err(expected.clone()));
    assert_eq!(AgentLine::parse_line(line), Err(expected));
}

#[test]
fn a_log_of_a_later_version_can_be_read() {
    let line = b" {\"later\":1,\"type\":\"log\",\"seq\":1,\"n\":3,\"level\":\"info\",\"ts\":2,\
                 \"message\":\"m\",\"more\":{}} \r\n";
    let event = Event::Log { level: Level::Info, message: "m".into() };
    assert_eq!(
        RunEvent::parse_line(line),
        Ok(RunEvent { seq: 1, ts: 2, line: None, event: event.clone() })
    );
    assert_eq!(AgentLine::parse_line(line), Ok(AgentLine { n: 3, ts: 2, event }));
    let usage = b"{\"seq\":1,\"ts\":2,\"type\":\"usage\",\"input_tokens\":1,\"output_tokens\":2}";
    assert!(RunEvent::parse_line(usage).is_ok());
    let line = b"{\"seq\":1,\"ts\":2,\"type\":\"dream\",\"depth\":3}";
    refused(line, BadLine::UnknownType("dream".into()));
}

#[test]
fn damage_is_named() {
    refused(b"", BadLine::NotAnObject);
    refused(b"[]\n", BadLine::NotAnObject);
    refused(b"{\"seq\":1,\"ts\":2,\"type\":\"lo", BadLine::NotJson);
    let two = b"{\"seq\":1,\"n\":1,\"ts\":2,\"type\":\"result\",\"message\":\"m\"} {}";
    refused(two, BadLine::NotJson);
    refused(b"{\"seq\":1,\n\"ts\":2}\n", BadLine::LineBreak);
    refused(
        &[b" ".repeat(LINE_LIMIT), b"{}".to_vec()].concat(),
        BadLine::TooLong { limit: LINE_LIMIT },
    );
    for line in [
        "{\"seq\":1,\"ts\":2}",
        "{\"seq\":1,\"ts\":-2,\"type\":\"result\",\"message\":\"m\"}",
        "{\"seq\":1,\"ts\":2,\"type\":\"result\",\"message\":3}",
        "{\"seq\":1,\"ts\":2,\"type\":\"result\",\"type\":\"result\",\"message\":\"m\"}",
        "{\"seq\":1,\"ts\":2,\"type\":\"error\",\"code\":\"nope\",\"message\":\"m\"}",
        "{\"seq\":1,\"ts\":2,\"type\":\"step_ended\",\"id\":\"../x\",\"status\":\"failed\",\
         \"error\":\"e\",\"duration_ms\":1}",
    ] {
        let result = RunEvent::parse_line(line.as_bytes());
        assert!(matches!(result, Err(BadLine::NotAnEvent(_))), "{line}: {result:?}");
    }
}

/// A custom event with `value`, which is JSON.
fn custom(value: &str) -> Vec<u8> {
    let head = "\"n\":1,\"seq\":1,\"ts\":2,\"type\":\"custom\",\"name\":\"c\"";
    format!("{{{head},\"value\":{value}}}").into_bytes()
}

#[test]
fn a_line_of_too_many_values_is_refused_before_it_is_read() {
    let limit = VALUES_LIMIT;
    refused(&custom(&format!("[0{}]", ",0".repeat(limit))), BadLine::TooManyValues { limit });
    let hidden = format!("[\"\\\\\"{}]", ",\"\\\"\"".repeat(limit));
    refused(&custom(&hidden), BadLine::TooManyValues { limit });
    for value in [
        format!("[0{}]", ",0".repeat(limit - 10)),
        format!("\"\\\\\\\"{}\"", ",".repeat(limit + 10)),
    ] {
        assert!(RunEvent::parse_line(&custom(&value)).is_ok(), "{}", &value[..20]);
    }
    let cut = format!("[\"{}\\", ",".repeat(limit + 10));
    refused(&cut.replacen('[', "{", 1).into_bytes(), BadLine::NotJson);
}

proptest! {
    #[test]
    fn arbitrary_lines_never_panic(
        line in prop::collection::vec(any::<u8>(), 0..200),
        text in "\\{\"(seq|ts|type)\":(1|\"log\"|\\{),?.{0,40}\\}?",
    ) {
        let _ = RunEvent::parse_line(&line);
        let _ = RunEvent::parse_line(text.as_bytes());
        let _ = AgentLine::parse_line(text.as_bytes());
    }

    #[test]
    fn fractions_are_written_as_they_were_read(number in any::<f64>()) {
        prop_assume!(number.is_finite());
        let event = Event::Custom { name: "n".into(), value: json!(number) };
        let line = to_raw(&RunEvent { seq: 1, ts: 2, line: None, event });
        prop_assert_eq!(to_raw(&RunEvent::parse_line(line.as_bytes()).unwrap()), line);
    }
}
