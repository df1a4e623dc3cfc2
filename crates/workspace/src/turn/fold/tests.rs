//! Events in, blocks out.

use serde_json::{Value, json};
use wire::run::{MESSAGE_LIMIT, Progress, StepId};

use super::{Fold, LIMIT, cut, size};
use crate::turn::event::{Ending, FileInfo, Files, Piece, Step, TurnEvent};

fn text(message: &str, delta: &str) -> TurnEvent {
    TurnEvent::Text(Piece { message_id: message.to_owned(), delta: delta.to_owned() })
}

fn step(number: u64, progress: Progress) -> TurnEvent {
    let id = StepId::from_number(number);
    TurnEvent::Step(Step { id, name: "shell".to_owned(), progress, ts: None })
}

fn running(number: u64, args: Value) -> TurnEvent {
    step(number, Progress::Running { args })
}

fn succeeded(number: u64, result: Value) -> TurnEvent {
    step(number, Progress::Succeeded { result, truncated: false, duration_ms: 4 })
}

fn answered(message: &str) -> Ending {
    Ending::Answered { message: message.to_owned() }
}

fn fold(events: &[TurnEvent], ending: &Ending) -> Value {
    let mut fold = Fold::new();
    for event in events {
        fold.add(event);
    }
    serde_json::to_value(fold.finish(ending)).unwrap()
}

#[track_caller]
fn check(events: &[TurnEvent], ending: Ending, expected: Value) {
    assert_eq!(fold(events, &ending), expected);
}

#[test]
fn a_turn_reads_as_it_was_seen() {
    let file = FileInfo {
        id: "file_1".to_owned(),
        name: "a.txt".to_owned(),
        mime_type: "text/plain".to_owned(),
        size: 1,
    };
    check(
        &[
            text("m1", "One "),
            text("m1", "moment."),
            running(1, json!({"command": "ls"})),
            running(2, json!({})),
            succeeded(2, json!(2)),
            succeeded(1, json!({"stdout": ""})),
            text("m2", "Done."),
            TurnEvent::Files(Files { files: vec![file] }),
        ],
        answered("Done."),
        json!([
            {"type": "text", "text": "One moment."},
            {"type": "step", "id": "step_1", "name": "shell", "status": "succeeded",
             "args": {"command": "ls"}, "result": {"stdout": ""}, "durationMs": 4},
            {"type": "step", "id": "step_2", "name": "shell", "status": "succeeded",
             "args": {}, "result": 2, "durationMs": 4},
            {"type": "text", "text": "Done."},
            {"type": "files", "files": [
                {"id": "file_1", "name": "a.txt", "mimeType": "text/plain", "size": 1}]},
        ]),
    );
}

#[test]
fn the_final_message_is_there_once() {
    let said = |text: &str| json!([{"type": "text", "text": text}]);
    check(&[], answered("Hi"), said("Hi"));
    check(&[text("m", "Hi")], answered("Hi"), said("Hi"));
    check(&[text("m", "H")], answered("Hi"), said("Hi"));
    check(&[text("m", "Hi")], answered(""), said("Hi"));
    check(&[], answered(""), json!([]));
    let both = json!([{"type": "text", "text": "Well"}, {"type": "text", "text": "Hi"}]);
    check(&[text("m", "Well")], answered("Hi"), both.clone());
    check(&[text("m", "Well"), text("n", "Hi")], answered("Hi"), both);
}

#[test]
fn a_failed_turn_has_its_steps_and_its_error() {
    check(
        &[running(1, json!({}))],
        Ending::Failed { code: "cancelled".to_owned(), message: "enough".to_owned() },
        json!([
            {"type": "step", "id": "step_1", "name": "shell", "status": "failed", "args": {},
             "error": "the turn ended before this step did"},
            {"type": "error", "code": "cancelled", "message": "enough"},
        ]),
    );
}

#[test]
fn a_message_is_bounded_and_its_end_is_not_lost() {
    let large = json!("x".repeat(1 << 20));
    let mut events = Vec::new();
    for number in 0..5 {
        events.push(running(number, large.clone()));
        events.push(succeeded(number, large.clone()));
    }
    for number in 5..50_000 {
        events.push(running(number, json!({"command": "a command of some length"})));
    }
    events.push(text("m", &"y".repeat(2 << 20)));
    let last = "z".repeat(MESSAGE_LIMIT - 2);
    let blocks = fold(&events, &answered(&last));
    assert!(size(&blocks) <= LIMIT, "{}", size(&blocks));
    assert_eq!(blocks[0]["args"], large);
    let blocks = blocks.as_array().unwrap();
    assert!(blocks.iter().any(|block| block["result"] == json!({"truncated": true})));
    assert_eq!(blocks.last().unwrap()["text"], last);
}

#[test]
fn what_is_cut_says_so_and_fits_whatever_it_is_made_of() {
    assert_eq!(cut("short", 10), "short");
    for letter in ["a", "ä", "\u{1}", "\"", "😀"] {
        let text = cut(&letter.repeat(5_000), 1_000);
        assert!(text.ends_with("… [cut]"), "{text}");
        let size = size(&text);
        assert!((900..=1_002).contains(&size), "{letter:?}: {size}");
    }
}
