//! Recorded streams of Responses, good and bad.

use serde_json::json;
use wire::agent::ModelConfig;

use super::Responses;
use crate::model::{
    Answer, Conversation, Delta, Entry, Stop, ToolOutcome, ToolResult, ToolSpec,
    dialect::{Dialect, assemble},
};

fn config() -> ModelConfig {
    serde_json::from_value(json!({"provider": "openai-responses", "name": "o-test"})).unwrap()
}

fn read(events: &[&str]) -> (Vec<Delta>, Result<Answer, String>) {
    assemble(Responses::new(&config()).assembly(), events)
}

const REASONING_AND_CALLS: &[&str] = &[
    r#"{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}"#,
    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#,
    r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Hm."}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gAAA"}}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}}"#,
    r#"{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":""}}"#,
    r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"I "}"#,
    r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"look."}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"I look."}]}}"#,
    r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_a","name":"shell","arguments":""}}"#,
    r#"{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call","call_id":"call_b","name":"list_files","arguments":""}}"#,
    r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"comm"}"#,
    r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"and\":\"ls\"}"}"#,
    r#"{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"command\":\"ls\"}"}"#,
    r#"{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","call_id":"call_b","name":"list_files","arguments":"{}"}}"#,
    r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","usage":{"input_tokens":1,"output_tokens":2}}}"#,
];

#[test]
fn reasoning_text_and_parallel_calls_are_put_together() {
    let (heard, answer) = read(REASONING_AND_CALLS);
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), answer.stop), ("I look.", Stop::Tools));
    let calls: Vec<_> =
        answer.calls.iter().map(|call| (call.id.as_str(), call.arguments.shown())).collect();
    assert_eq!(calls, [("call_a", json!({"command": "ls"})), ("call_b", json!({}))]);
    assert_eq!(heard[0], Delta::Reasoning("Hm.".to_owned()));
    assert_eq!(heard.len(), 3);
}

#[test]
fn the_next_round_carries_all_of_it_without_ids() {
    let (_, answer) = read(REASONING_AND_CALLS);
    let result = ToolResult {
        call: "call_a".to_owned(),
        content: "a\n".to_owned(),
        outcome: ToolOutcome::Succeeded,
    };
    let conversation = Conversation {
        system: "Be brief.".to_owned(),
        entries: vec![
            Entry::User("Look.".to_owned()),
            Entry::Answer(answer.unwrap()),
            Entry::Results(vec![result]),
        ],
        tools: vec![ToolSpec {
            name: "shell".to_owned(),
            description: "Runs a command.".to_owned(),
            schema: json!({"type": "object"}),
        }],
    };
    assert_eq!(
        Responses::new(&config()).body(&conversation),
        json!({
            "model": "o-test",
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "shell", "description": "Runs a command.", "parameters": {"type": "object"}, "strict": false}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAA"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "call_a", "name": "shell", "arguments": "{\"command\":\"ls\"}"},
                {"type": "function_call", "call_id": "call_b", "name": "list_files", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_a", "output": "a\n"},
            ],
        })
    );
}

#[track_caller]
fn check_bad(events: &[&str], expected: &str) {
    assert_eq!(read(events).1.unwrap_err(), expected);
}

#[test]
fn what_is_malformed_is_refused_with_a_reason() {
    let open =
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}"#;
    check_bad(&[open], "the provider's answer ended without saying why");
    check_bad(
        &[open, open],
        "the provider's event `response.output_item.added` has no usable `output_index`",
    );
    check_bad(
        &[r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"hologram"}}"#],
        "the provider sent an unknown kind of output item: `hologram`",
    );
    check_bad(
        &[r#"{"type":"response.output_text.delta","output_index":0,"delta":"x"}"#],
        "the provider's event `response.output_text.delta` has no usable `output_index`",
    );
    check_bad(
        &[
            open,
            r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"x"}"#,
        ],
        "the provider's event `response.function_call_arguments.delta` has no usable `output_index`",
    );
    check_bad(
        &[
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"It broke"}}}"#,
        ],
        "It broke (server_error)",
    );
    check_bad(
        &[r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow down"}"#],
        "Slow down (rate_limit_exceeded)",
    );
    check_bad(
        &[
            open,
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}"#,
        ],
        "the model declined to answer",
    );
}

#[test]
fn an_answer_cut_by_its_limit_says_so() {
    let (_, answer) = read(&[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"Once upon"}"#,
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
    ]);
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), answer.stop), ("Once upon", Stop::Length));
}
