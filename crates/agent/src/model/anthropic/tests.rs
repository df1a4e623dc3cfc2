//! Recorded streams of Anthropic's Messages, good and bad.

use serde_json::json;
use wire::agent::ModelConfig;

use super::Anthropic;
use crate::model::{
    Answer, Arguments, Conversation, Delta, Entry, Stop, ToolOutcome, ToolResult, ToolSpec,
    dialect::{Dialect, assemble},
};

fn config() -> ModelConfig {
    serde_json::from_value(json!({"provider": "anthropic", "name": "claude-test"})).unwrap()
}

fn read(events: &[&str]) -> (Vec<Delta>, Result<Answer, String>) {
    assemble(Anthropic::new(&config()).assembly(), events)
}

const THINKING_AND_TOOLS: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look."}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look."}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"shell","input":{}}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"comm"}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"and\":\"ls\"}"}}"#,
    r#"{"type":"content_block_stop","index":2}"#,
    r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"list_files","input":{}}}"#,
    r#"{"type":"content_block_stop","index":3}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":40}}"#,
    r#"{"type":"message_stop"}"#,
];

#[test]
fn thinking_text_and_parallel_calls_are_put_together() {
    let (heard, answer) = read(THINKING_AND_TOOLS);
    let answer = answer.unwrap();
    assert_eq!(answer.text, "I look.");
    assert_eq!(answer.stop, Stop::Tools);
    let names: Vec<&str> = answer.calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["shell", "list_files"]);
    assert_eq!(answer.calls[0].arguments.shown(), json!({"command": "ls"}));
    assert_eq!(answer.calls[1].arguments.shown(), json!({}));
    assert_eq!(
        heard,
        [
            Delta::Reasoning("Let me ".to_owned()),
            Delta::Reasoning("look.".to_owned()),
            Delta::Text("I look.".to_owned()),
        ]
    );
}

#[test]
fn the_next_round_gets_thinking_back_with_its_signature() {
    let (_, answer) = read(THINKING_AND_TOOLS);
    let result = ToolResult {
        call: "toolu_1".to_owned(),
        content: "no such file".to_owned(),
        outcome: ToolOutcome::Failed,
    };
    let conversation = Conversation {
        system: "Be brief.".to_owned(),
        entries: vec![
            Entry::User("Look.".to_owned()),
            Entry::User("Please.".to_owned()),
            Entry::Assistant(String::new()),
            Entry::Answer(answer.unwrap()),
            Entry::Results(vec![result]),
        ],
        tools: vec![ToolSpec {
            name: "shell".to_owned(),
            description: "Runs a command.".to_owned(),
            schema: json!({"type": "object"}),
        }],
    };
    let body = Anthropic::new(&config()).body(&conversation);
    assert_eq!(
        body,
        json!({
            "model": "claude-test",
            "max_tokens": 8192,
            "stream": true,
            "system": "Be brief.",
            "tools": [{"name": "shell", "description": "Runs a command.", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "text", "text": "Please."}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Let me look.", "signature": "EqQB"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "list_files", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such file", "is_error": true},
                ]},
            ],
        })
    );
}

#[test]
fn arguments_that_are_no_json_are_kept_as_they_came() {
    let (_, answer) = read(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"shell","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\": \"l"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let answer = answer.unwrap();
    assert_eq!(answer.stop, Stop::Length);
    assert!(
        matches!(&answer.calls[0].arguments, Arguments::Malformed { text, .. } if text == "{\"command\": \"l")
    );
}

#[track_caller]
fn check_bad(events: &[&str], expected: &str) {
    let (_, answer) = read(events);
    assert_eq!(answer.unwrap_err(), expected);
}

#[test]
fn what_is_malformed_is_refused_with_a_reason() {
    let open =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    check_bad(
        &["{"],
        "the provider sent what is no JSON: EOF while parsing an object at line 1 column 1, in `{`",
    );
    check_bad(&["[]"], "the provider sent what is no JSON: not an object, in `[]`");
    check_bad(&["{}"], "the provider's event `?` has no usable `type`");
    check_bad(&[open], "the provider's answer ended without saying why");
    check_bad(
        &[open, r#"{"type":"message_stop"}"#],
        "the provider's answer ended without saying why",
    );
    check_bad(
        &[r#"{"type":"content_block_start","index":0,"content_block":{"type":"hologram"}}"#],
        "the provider sent an unknown kind of content block: `hologram`",
    );
    check_bad(
        &[r#"{"type":"content_block_start","index":4,"content_block":{"type":"text"}}"#],
        "the provider's event `content_block_start` has no usable `index`",
    );
    check_bad(
        &[
            open,
            r#"{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"x"}}"#,
        ],
        "the provider's event `content_block_delta` has no usable `index`",
    );
    check_bad(
        &[
            open,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"x"}}"#,
        ],
        "the provider sent an unknown kind of delta here: `input_json_delta`",
    );
    check_bad(
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"x"}}"#,
        ],
        "the provider's event `content_block_start` has no usable `id`",
    );
    check_bad(
        &[r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#],
        "Overloaded (overloaded_error)",
    );
    check_bad(
        &[open, r#"{"type":"message_delta","delta":{"stop_reason":"refusal"}}"#],
        "the model declined to answer",
    );
    check_bad(
        &[open, r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#],
        "the provider stopped for tools and called none",
    );
}

#[test]
fn an_answer_is_bounded() {
    let open =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let piece = "x".repeat(1 << 20);
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}).to_string();
    let mut events = vec![open];
    events.extend([delta.as_str(); 9]);
    check_bad(&events, "the provider's answer is larger than 8388608 bytes");

    let calls: Vec<String> = (0..129)
        .map(|index| json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": format!("toolu_{index}"), "name": "shell"}}).to_string())
        .collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    check_bad(&calls, "the provider's answer calls more than 128 tools");
}
