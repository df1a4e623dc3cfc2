//! What tool calls become, those of the caller's too.

use serde_json::{Value, json};

use super::{RUN, begun, call, check, ended, entries, finished, project, result, succeeded, text};
use crate::agui::{AguiEvent, AguiKind};
use crate::run::Outcome;

#[test]
fn a_call_closes_the_text_and_belongs_to_it_and_the_text_goes_on_as_another_message() {
    check(
        vec![
            text("m", "Let me see. "),
            call(1, json!({"command": "ls"})),
            ended(1, succeeded(json!("a\n"))),
            text("m", "One file."),
            result("Let me see. One file."),
        ],
        json!([
            {"type": "TEXT_MESSAGE_START", "messageId": "R.m", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "Let me see. "},
            {"type": "TEXT_MESSAGE_END", "messageId": "R.m"},
            {"type": "TOOL_CALL_START", "toolCallId": "R.step_1", "toolCallName": "shell",
             "parentMessageId": "R.m"},
            {"type": "TOOL_CALL_ARGS", "toolCallId": "R.step_1", "delta": "{\"command\":\"ls\"}"},
            {"type": "TOOL_CALL_END", "toolCallId": "R.step_1"},
            {"type": "TOOL_CALL_RESULT", "messageId": "R.step_1.result", "toolCallId": "R.step_1",
             "content": "a\n", "role": "tool", "metadata": {"mayfly": {"durationMs": 5}}},
            {"type": "TEXT_MESSAGE_START", "messageId": "R.m.2", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m.2", "delta": "One file."},
            {"type": "TEXT_MESSAGE_END", "messageId": "R.m.2"},
            finished("Let me see. One file."),
        ]),
    );
}

#[test]
fn a_result_is_text_and_says_how_it_went() {
    let content = |outcome| {
        let log = entries(vec![begun(), call(1, Value::Null), ended(1, outcome)]);
        let AguiEvent { kind, metadata, .. } = project(&log)[2][0].clone();
        let AguiKind::ToolCallResult { content, .. } = kind else { panic!("{kind:?}") };
        (content, Value::from(metadata.unwrap()))
    };
    let failed = |error: &str, result| Outcome::Failed { error: error.into(), result };
    let bad = json!({"mayfly": {"durationMs": 5}, "tanstack": {"state": "output-error"}});
    let cut = Outcome::Succeeded { result: json!([1, null]), truncated: true };
    let marked = json!({"mayfly": {"durationMs": 5, "truncated": true}});
    assert_eq!(content(cut), ("[1,null]".into(), marked));
    assert_eq!(content(failed("no", None)), ("no".into(), bad.clone()));
    let both = (r#"{"error":"no","result":{"code":1}}"#.into(), bad.clone());
    assert_eq!(content(failed("no", Some(json!({"code": 1})))), both);
    assert_eq!(content(failed("interrupted", None)), (r#"{"status":"interrupted"}"#.into(), bad));
}

#[test]
fn calls_of_one_breath_share_a_message() {
    let log = entries(vec![
        begun(),
        call(1, Value::Null),
        call(2, Value::Null),
        ended(1, succeeded(Value::Null)),
        ended(2, succeeded(Value::Null)),
        call(3, Value::Null),
    ]);
    let parents: Vec<String> = project(&log)
        .concat()
        .into_iter()
        .filter_map(|event| {
            let AguiKind::ToolCallStart { parent_message_id, .. } = event.kind else { return None };
            Some(parent_message_id)
        })
        .collect();
    let [first, third] = [1, 3].map(|number| format!("{RUN}.step_{number}"));
    assert_eq!(parents, [first.clone(), first, third]);
}

#[test]
fn a_call_that_is_the_callers_has_no_result_and_is_pending_at_the_end() {
    check(
        vec![call(1, json!({"x": 1})), ended(1, Outcome::Deferred), result("")],
        json!([
            {"type": "TOOL_CALL_START", "toolCallId": "R.step_1", "toolCallName": "shell",
             "parentMessageId": "R.step_1"},
            {"type": "TOOL_CALL_ARGS", "toolCallId": "R.step_1", "delta": "{\"x\":1}"},
            {"type": "TOOL_CALL_END", "toolCallId": "R.step_1"},
            {"type": "CUSTOM", "name": "tool-input-available",
             "value": {"toolCallId": "R.step_1", "toolName": "shell", "input": {"x": 1}}},
            {"type": "RUN_FINISHED", "threadId": "thread", "runId": "mine",
             "result": {"message": ""},
             "outcome": {"type": "success", "pendingToolCallIds": ["R.step_1"]},
             "metadata": {"tanstack": {"finishReason": "stop"}}},
        ]),
    );
}

#[test]
fn what_follows_a_call_of_the_callers_stays_in_its_message() {
    check(
        vec![
            text("m", "May I?"),
            call(1, Value::Null),
            ended(1, Outcome::Deferred),
            call(2, Value::Null),
            ended(2, succeeded(json!("ok"))),
            text("n", "I asked."),
            result("I asked."),
        ],
        json!([
            {"type": "TEXT_MESSAGE_START", "messageId": "R.m", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "May I?"},
            {"type": "TEXT_MESSAGE_END", "messageId": "R.m"},
            {"type": "TOOL_CALL_START", "toolCallId": "R.step_1", "toolCallName": "shell",
             "parentMessageId": "R.m"},
            {"type": "TOOL_CALL_ARGS", "toolCallId": "R.step_1", "delta": "{}"},
            {"type": "TOOL_CALL_END", "toolCallId": "R.step_1"},
            {"type": "CUSTOM", "name": "tool-input-available",
             "value": {"toolCallId": "R.step_1", "toolName": "shell", "input": {}}},
            {"type": "TOOL_CALL_START", "toolCallId": "R.step_2", "toolCallName": "shell",
             "parentMessageId": "R.m"},
            {"type": "TOOL_CALL_ARGS", "toolCallId": "R.step_2", "delta": "{}"},
            {"type": "TOOL_CALL_END", "toolCallId": "R.step_2"},
            {"type": "TOOL_CALL_RESULT", "messageId": "R.step_2.result", "toolCallId": "R.step_2",
             "content": "ok", "role": "tool", "metadata": {"mayfly": {"durationMs": 5}}},
            {"type": "TEXT_MESSAGE_START", "messageId": "R.m", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "\n\n"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "R.m", "delta": "I asked."},
            {"type": "TEXT_MESSAGE_END", "messageId": "R.m"},
            {"type": "RUN_FINISHED", "threadId": "thread", "runId": "mine",
             "result": {"message": "I asked."},
             "outcome": {"type": "success", "pendingToolCallIds": ["R.step_1"]},
             "metadata": {"tanstack": {"finishReason": "stop"}}},
        ]),
    );
}
