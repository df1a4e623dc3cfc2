//! Lines of both formats, line by line.

use serde_json::json;
use wire::run::{BadLine, Level, Progress, StepId};

use super::{BadStream, Heard, Processor, Said};
use crate::{
    runner::Format,
    turn::event::{Ending, LogLine, Piece, Step, TurnEvent},
};

fn step(progress: Progress) -> Said {
    let (id, name) = (StepId::from_number(1), "shell".to_owned());
    Said::Event(TurnEvent::Step(Step { id, name, progress, ts: Some(5) }))
}

#[track_caller]
fn check(processor: &mut Processor, line: &str, expected: Option<Said>) {
    let heard = processor.line(line.as_bytes()).unwrap();
    let upstream = (processor.format == Format::Raw).then_some(processor.seq);
    assert_eq!(heard, expected.map(|said| Heard { said, upstream }), "{line}");
}

#[track_caller]
fn check_refused(format: Format, line: &str, expected: BadStream) {
    assert_eq!(Processor::new(format).line(line.as_bytes()), Err(expected), "{line}");
}

#[test]
fn the_raw_log_becomes_events_with_names_on_every_step() {
    let raw = &mut Processor::new(Format::Raw);
    let run = "run_0123456789abcdefghjkmnpq";
    let started =
        format!(r#"{{"seq":1,"ts":5,"type":"started","run_id":"{run}","harness":"builtin"}}"#);
    check(raw, &started, None);
    let log = LogLine { level: Level::Info, message: "hi".to_owned() };
    let line = r#"{"seq":2,"ts":5,"type":"log","level":"info","message":"hi"}"#;
    check(raw, line, Some(Said::Event(TurnEvent::Log(log))));
    check(
        raw,
        r#"{"seq":3,"ts":5,"type":"step_started","id":"step_1","name":"shell","args":{"a":1}}"#,
        Some(step(Progress::Running { args: json!({"a": 1}) })),
    );
    check(
        raw,
        r#"{"seq":4,"ts":5,"type":"step_ended","id":"step_1","status":"succeeded","result":2,"duration_ms":7}"#,
        Some(step(Progress::Succeeded { result: json!(2), truncated: false, duration_ms: 7 })),
    );
    let piece = Piece { message_id: "m".to_owned(), delta: "He".to_owned() };
    let line = r#"{"seq":5,"ts":5,"type":"text","message_id":"m","delta":"He"}"#;
    check(raw, line, Some(Said::Event(TurnEvent::Text(piece))));
    let line = r#"{"seq":6,"ts":5,"type":"uploaded","files":[{"id":"file_1","name":"a","mimeType":"t","size":1,"sha256":"0","storageKey":"k"}]}"#;
    check(raw, line, Some(Said::Uploaded(vec!["file_1".to_owned()])));
    let line = r#"{"seq":7,"ts":5,"type":"custom","name":"x","value":1}"#;
    check(raw, line, None);
    let line = r#"{"seq":8,"ts":5,"type":"result","message":"Hello"}"#;
    let answered = Ending::Answered { message: "Hello".to_owned() };
    check(raw, line, Some(Said::End(answered)));
}

#[test]
fn the_envelope_becomes_events_too() {
    let envelope = &mut Processor::new(Format::Envelope);
    check(
        envelope,
        r#"{"type":"step","id":"step_1","name":"shell","status":"running","args":{},"ts":5}"#,
        Some(step(Progress::Running { args: json!({}) })),
    );
    let failed = Ending::Failed { code: "model_timeout".to_owned(), message: "late".to_owned() };
    let line = r#"{"type":"error","code":"model_timeout","message":"late"}"#;
    check(envelope, line, Some(Said::End(failed)));
}

#[test]
fn what_is_not_understood_is_refused() {
    let unknown = || BadStream::Line(BadLine::UnknownType("dance".to_owned()));
    check_refused(Format::Envelope, r#"{"type":"dance"}"#, unknown());
    check_refused(Format::Raw, r#"{"seq":1,"ts":1,"type":"dance"}"#, unknown());
    for format in [Format::Raw, Format::Envelope] {
        check_refused(format, r#"{"type":"#, BadStream::Line(BadLine::NotJson));
        check_refused(format, "", BadStream::Line(BadLine::NotAnObject));
    }
    let line = r#"{"seq":2,"ts":1,"type":"result","message":""}"#;
    check_refused(Format::Raw, line, BadStream::Gap { before: 0, after: 2 });
    let line = r#"{"seq":1,"ts":1,"type":"step_ended","id":"step_1","status":"failed","error":"","duration_ms":1}"#;
    check_refused(Format::Raw, line, BadStream::NoStep);
}

#[test]
fn a_run_that_is_taken_up_again_knows_its_steps() {
    let steps = [(StepId::from_number(1), "shell".to_owned())].into();
    let mut processor = Processor::resumed(3, steps);
    let line = r#"{"seq":4,"ts":5,"type":"step_ended","id":"step_1","status":"failed","error":"x","duration_ms":7}"#;
    let failed = Progress::Failed { error: "x".to_owned(), duration_ms: Some(7) };
    check(&mut processor, line, Some(step(failed)));
}
