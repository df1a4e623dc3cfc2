//! Each way to break the rules is found, and what clients let pass, passes.

use serde_json::{Value, json};

use crate::agui::{AguiChecker, AguiEvent, Thing, Violation};

/// Events by their types and the id that all of them share.
#[track_caller]
fn check(types: &[&str], expected: Result<(), Violation>) {
    let events: Vec<Value> = types.iter().map(|kind| event(kind)).collect();
    check_events(events, expected);
}

/// The verdict on the last event; those before it are fine.
#[track_caller]
fn check_events(events: Vec<Value>, expected: Result<(), Violation>) {
    let mut checker = AguiChecker::new();
    let last = events.len() - 1;
    for (index, event) in events.into_iter().enumerate() {
        let event: AguiEvent = serde_json::from_value(event).unwrap();
        let wanted = if index == last { expected.clone() } else { Ok(()) };
        assert_eq!(checker.check(&event), wanted, "{index}: {event:?}");
    }
}

fn event(kind: &str) -> Value {
    let role = if kind.starts_with("REASONING") { "reasoning" } else { "assistant" };
    json!({
        "type": kind, "threadId": "t", "runId": "r", "protocolVersion": "1.0", "messageId": "x",
        "toolCallId": "x", "toolCallName": "n", "parentMessageId": "p", "delta": "d", "role": role,
        "content": "c", "name": "n", "value": null, "message": "m", "code": "c", "result": {},
        "outcome": {"type": "success"},
    })
}

fn open(thing: Thing) -> (Thing, String) {
    (thing, "x".into())
}

#[test]
fn a_run_begins_with_its_start_or_is_an_error_alone() {
    check(&["RUN_STARTED"], Ok(()));
    check(&["RUN_ERROR"], Ok(()));
    for first in ["CUSTOM", "RUN_FINISHED", "TEXT_MESSAGE_START", "TOOL_CALL_RESULT"] {
        check(&[first], Err(Violation::NotStarted));
    }
    check(&["RUN_STARTED", "RUN_STARTED"], Err(Violation::StartedTwice));
    check(&["RUN_STARTED", "CUSTOM", "RUN_STARTED"], Err(Violation::StartedTwice));
}

#[test]
fn nothing_comes_after_the_end_but_another_run() {
    check(&["RUN_STARTED", "RUN_FINISHED", "CUSTOM"], Err(Violation::AfterTheEnd));
    check(&["RUN_STARTED", "RUN_FINISHED", "RUN_FINISHED"], Err(Violation::AfterTheEnd));
    check(&["RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"], Ok(()));
    check(&["RUN_STARTED", "RUN_FINISHED", "RUN_STARTED"], Ok(()));
    check(&["RUN_STARTED", "RUN_ERROR", "CUSTOM"], Err(Violation::AfterTheEnd));
    check(&["RUN_STARTED", "RUN_ERROR", "RUN_ERROR"], Err(Violation::AfterTheEnd));
    check(&["RUN_STARTED", "RUN_ERROR", "RUN_STARTED"], Ok(()));
}

#[test]
fn a_stream_ends_with_a_terminal_event() {
    let mut checker = AguiChecker::new();
    assert_eq!(checker.end(), Err(Violation::NoEnd));
    for (kind, end) in [("RUN_STARTED", Err(Violation::NoEnd)), ("RUN_FINISHED", Ok(()))] {
        checker.check(&serde_json::from_value(event(kind)).unwrap()).unwrap();
        assert_eq!(checker.end(), end);
    }
}

#[test]
fn what_opens_closes_and_goes_on_only_in_between() {
    let things = [
        (Thing::Text, "TEXT_MESSAGE_START", Some("TEXT_MESSAGE_CONTENT"), "TEXT_MESSAGE_END"),
        (Thing::ToolCall, "TOOL_CALL_START", Some("TOOL_CALL_ARGS"), "TOOL_CALL_END"),
        (Thing::Reasoning, "REASONING_START", None, "REASONING_END"),
        (
            Thing::ReasoningMessage,
            "REASONING_MESSAGE_START",
            Some("REASONING_MESSAGE_CONTENT"),
            "REASONING_MESSAGE_END",
        ),
    ];
    for (thing, start, content, end) in things {
        let run = "RUN_STARTED";
        for inside in content.into_iter().chain([end]) {
            let (thing, id) = open(thing);
            check(&[run, inside], Err(Violation::NotOpen { thing, id: id.clone() }));
            check(&[run, start, end, inside], Err(Violation::NotOpen { thing, id }));
            check(&[run, start, "CUSTOM", inside], Ok(()));
        }
        let (thing, id) = open(thing);
        check(&[run, start, start], Err(Violation::OpenTwice { thing, id: id.clone() }));
        check(&[run, start, end, start], Ok(()));
        for terminal in ["RUN_FINISHED", "RUN_ERROR"] {
            check(&[run, start, terminal], Err(Violation::StillOpen { thing, id: id.clone() }));
        }
    }
}

#[test]
fn every_call_has_its_result_or_is_pending() {
    let called = ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_END"].map(event);
    let finished = |pending: &[&str]| {
        let mut event = event("RUN_FINISHED");
        event["outcome"]["pendingToolCallIds"] = json!(pending);
        event
    };
    let stream = |more: &[Value]| [&called[..], more].concat();
    let answered = event("TOOL_CALL_RESULT");
    let not_pending = |id: &str| Err(Violation::NotPending(id.into()));
    check_events(stream(&[finished(&[])]), Err(Violation::Unanswered("x".into())));
    check_events(stream(&[finished(&["x"])]), Ok(()));
    check_events(stream(&[answered.clone(), finished(&[])]), Ok(()));
    check_events(stream(&[answered, finished(&["x"])]), not_pending("x"));
    check_events(stream(&[finished(&["y"])]), not_pending("y"));
    check(&["RUN_STARTED", "TOOL_CALL_RESULT"], Ok(()));
    check_events(stream(&[event("RUN_ERROR")]), Ok(()));
}

#[test]
fn integers_are_safe() {
    const BAD: u64 = AguiEvent::MAX_INTEGER + 1;
    let mut late = event("RUN_STARTED");
    late["timestamp"] = BAD.into();
    check_events(vec![late], Err(Violation::UnsafeInteger(BAD)));
    for field in
        ["inputTokens", "outputTokens", "totalTokens", "cachedInputTokens", "cacheWriteInputTokens"]
    {
        let mut usage = json!({
            "inputTokens": 0, "outputTokens": 0, "totalTokens": 0,
            "cachedInputTokens": 0, "cacheWriteInputTokens": 0,
        });
        usage[field] = BAD.into();
        let mut failed = event("RUN_ERROR");
        failed["usage"] = json!([usage]);
        check_events(vec![failed], Err(Violation::UnsafeInteger(BAD)));
    }
}
