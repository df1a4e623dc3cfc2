//! What each event of a run becomes.

mod any;
mod bytes;
mod calls;
mod rules;

use serde_json::{Value, json};

use super::{AguiChecker, AguiEvent, AguiProjector};
use crate::run::{ErrorCode, Event, FileChange, Level, Outcome, RunEvent, RunId, StepId};

const RUN: &str = "run_000000000000000000000000";

fn begun() -> Event {
    Event::Started {
        run_id: RunId::from_random([0; 15]),
        sandbox_id: None,
        harness: "builtin".into(),
        provider: Some("anthropic".into()),
        model: Some("m".into()),
        thread_id: Some("thread".into()),
        client_run_id: Some("mine".into()),
    }
}

fn text(message_id: &str, delta: &str) -> Event {
    Event::Text { message_id: message_id.into(), delta: delta.into() }
}

fn call(number: u64, args: Value) -> Event {
    Event::StepStarted { id: StepId::from_number(number), name: "shell".into(), args }
}

fn ended(number: u64, outcome: Outcome) -> Event {
    Event::StepEnded { id: StepId::from_number(number), outcome, duration_ms: 5 }
}

fn succeeded(result: Value) -> Outcome {
    Outcome::Succeeded { result, truncated: false }
}

fn result(message: &str) -> Event {
    Event::Result { message: message.into() }
}

fn entries(events: Vec<Event>) -> Vec<RunEvent> {
    let entry = |(seq, event)| RunEvent { seq, ts: 1_000 + seq, line: None, event };
    (1..).zip(events).map(entry).collect()
}

/// What each entry becomes. The stream is held to the rules on the way.
fn project(log: &[RunEvent]) -> Vec<Vec<AguiEvent>> {
    let mut projector = AguiProjector::new();
    let project = |entry| {
        let mut out = Vec::new();
        projector.project(entry, &mut out);
        out
    };
    log.iter().map(project).collect()
}

/// The stream of a run, after its start, without timestamps and as JSON; the
/// run's id is `R` in it.
#[track_caller]
fn check(events: Vec<Event>, expected: Value) {
    let mut log = vec![begun()];
    log.extend(events);
    let stream: Vec<AguiEvent> = project(&entries(log)).into_iter().flatten().collect();
    let mut checker = AguiChecker::new();
    for event in &stream {
        assert_eq!(checker.check(event), Ok(()), "{event:?}");
    }
    let told: Vec<Value> = stream[1..]
        .iter()
        .map(|event| serde_json::to_value(AguiEvent { timestamp: None, ..event.clone() }).unwrap())
        .collect();
    let told: Value =
        serde_json::from_str(&serde_json::to_string(&told).unwrap().replace(RUN, "R")).unwrap();
    assert_eq!(told, expected);
}

/// The end of a run that only says what it said before.
fn finished(message: &str) -> Value {
    json!({
        "type": "RUN_FINISHED", "threadId": "thread", "runId": "mine",
        "result": {"message": message}, "outcome": {"type": "success"},
        "metadata": {"tanstack": {"finishReason": "stop"}},
    })
}

#[test]
fn a_text_is_one_message_and_is_not_said_again_at_the_end() {
    check(
        vec![text("m", "Hel"), text("m", "lo"), result("Hello\n")],
        json!([
            {"type": "TEXT_MESSAGE_START", "messageId": "R.m", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "Hel"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "lo"},
            {"type": "TEXT_MESSAGE_END", "messageId": "R.m"},
            finished("Hello\n"),
        ]),
    );
}

#[test]
fn a_final_message_that_was_not_streamed_is_a_message_of_its_own() {
    check(
        vec![result("Hello")],
        json!([
            {"type": "TEXT_MESSAGE_START", "messageId": "R.result", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.result", "delta": "Hello"},
            {"type": "TEXT_MESSAGE_END", "messageId": "R.result"},
            finished("Hello"),
        ]),
    );
    check(vec![result("")], json!([finished("")]));
}

#[test]
fn a_thought_is_a_span_with_one_message_that_text_closes() {
    let thought = Event::Reasoning { message_id: "m".into(), delta: "Hm".into() };
    check(
        vec![thought, text("m", "Yes"), result("Yes")],
        json!([
            {"type": "REASONING_START", "messageId": "R.m.reasoning"},
            {"type": "REASONING_MESSAGE_START", "messageId": "R.m.reasoning", "role": "reasoning"},
            {"type": "REASONING_MESSAGE_CONTENT", "messageId": "R.m.reasoning", "delta": "Hm"},
            {"type": "REASONING_MESSAGE_END", "messageId": "R.m.reasoning"},
            {"type": "REASONING_END", "messageId": "R.m.reasoning"},
            {"type": "TEXT_MESSAGE_START", "messageId": "R.m", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "Yes"},
            {"type": "TEXT_MESSAGE_END", "messageId": "R.m"},
            finished("Yes"),
        ]),
    );
}

#[test]
fn a_question_has_its_id_where_clients_look_for_it() {
    let asked = |value: Value| Event::Custom { name: "approval-requested".into(), value };
    let log = entries(vec![begun(), asked(json!({"approvalId": "a"})), asked(json!("?"))]);
    let told: Vec<Value> = project(&log)[1..]
        .iter()
        .map(|events| serde_json::to_value(&events[0]).unwrap()["value"].clone())
        .collect();
    let whole = json!({"approvalId": "a", "approval": {"id": "a", "needsApproval": true}});
    assert_eq!(told, [whole, json!("?")]);
}

#[test]
fn what_a_sandbox_does_is_custom_and_closes_nothing() {
    let files = vec![crate::run::UploadedFile {
        id: "f".into(),
        name: "a.txt".into(),
        mime_type: "text/plain".into(),
        size: 3,
        sha256: "00".into(),
        storage_key: "k".into(),
    }];
    check(
        vec![
            text("m", "a"),
            Event::Log { level: Level::Warn, message: "slow".into() },
            Event::File { change: FileChange::Create, path: "a.txt".into() },
            Event::Uploaded { files },
            Event::Custom { name: "codex.session-id".into(), value: json!({"sessionId": "s"}) },
            text("m", "b"),
            Event::Error { code: ErrorCode::Cancelled, message: "stopped".into() },
        ],
        json!([
            {"type": "TEXT_MESSAGE_START", "messageId": "R.m", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "a"},
            {"type": "CUSTOM", "name": "sandbox.log", "value": {"level": "warn", "message": "slow"}},
            {"type": "CUSTOM", "name": "sandbox.file",
             "value": {"type": "create", "path": "a.txt", "timestamp": 1004}},
            {"type": "CUSTOM", "name": "artifact.created",
             "value": {"artifactId": "f", "name": "a.txt", "mimeType": "text/plain", "size": 3}},
            {"type": "CUSTOM", "name": "codex.session-id", "value": {"sessionId": "s"}},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "b"},
            {"type": "TEXT_MESSAGE_END", "messageId": "R.m"},
            {"type": "RUN_ERROR", "message": "stopped", "code": "cancelled"},
        ]),
    );
}

#[test]
fn usage_is_summed_and_input_counts_the_cache() {
    let usage = |input, output, read, write| Event::Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: write,
    };
    let told = |events: Vec<Event>| {
        let mut log = vec![begun()];
        log.extend(events);
        log.push(Event::Error { code: ErrorCode::ModelError, message: "no".into() });
        let stream = project(&entries(log)).concat();
        serde_json::to_value(stream.last().unwrap()).unwrap()["usage"].clone()
    };
    assert_eq!(
        told(vec![usage(1, 2, 3, 4), usage(10, 20, 0, 0)]),
        json!([{"provider": "anthropic", "model": "m", "inputTokens": 18, "outputTokens": 22,
                "totalTokens": 40, "cachedInputTokens": 3, "cacheWriteInputTokens": 4}]),
    );
    let most = AguiEvent::MAX_INTEGER;
    let all = told(vec![usage(u64::MAX, u64::MAX, u64::MAX, 0)]);
    assert_eq!((&all[0]["inputTokens"], &all[0]["totalTokens"]), (&json!(most), &json!(most)));
    assert_eq!(told(vec![]), Value::Null);
}

#[test]
fn a_run_is_named_by_its_caller_or_by_itself() {
    let first = |event| serde_json::to_value(&project(&entries(vec![event]))[0][0]).unwrap();
    let named = json!({
        "type": "RUN_STARTED", "threadId": "thread", "runId": "mine", "protocolVersion": "1.0",
        "timestamp": 1001,
        "metadata": {"mayfly": {"runId": RUN, "harness": "builtin", "model": "m"}},
    });
    assert_eq!(first(begun()), named);
    let mut unnamed = begun();
    if let Event::Started { thread_id, client_run_id, .. } = &mut unnamed {
        (*thread_id, *client_run_id) = (None, None);
    }
    let unnamed = first(unnamed);
    assert_eq!((&unnamed["threadId"], &unnamed["runId"]), (&json!(RUN), &json!(RUN)));
}

#[test]
fn a_run_that_never_began_is_an_error_alone() {
    let error = Event::Error { code: ErrorCode::BadRequest, message: "no".into() };
    for (event, code) in [(error, "bad_request"), (result("hm"), "internal")] {
        let stream = project(&entries(vec![event])).concat();
        assert_eq!(stream.len(), 1);
        let told = serde_json::to_value(&stream[0]).unwrap();
        assert_eq!((&told["type"], &told["code"]), (&json!("RUN_ERROR"), &json!(code)));
    }
}
