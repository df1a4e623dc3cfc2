//! Recorded streams of Chat Completions, from OpenAI and from others.

use serde_json::{Value, json};
use wire::agent::ModelConfig;

use super::Chat;
use crate::model::{
    Answer, Conversation, Delta, Entry, Stop, ToolOutcome, ToolResult,
    dialect::{Dialect, assemble},
};

fn config() -> ModelConfig {
    serde_json::from_value(json!({"provider": "openai", "name": "gpt-test", "temperature": 0.5}))
        .unwrap()
}

fn read(events: &[&str]) -> (Vec<Delta>, Result<Answer, String>) {
    assemble(Chat::new(&config()).assembly(), events)
}

#[track_caller]
fn check_calls(events: &[&str], expected: &[(&str, &str, Value)]) {
    let answer = read(events).1.unwrap();
    let calls: Vec<(&str, &str, Value)> = answer
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.shown()))
        .collect();
    assert_eq!(calls, expected);
}

#[test]
fn text_and_thought_are_put_together() {
    let (heard, answer) = read(&[
        r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":", you"},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
        "[DONE]",
    ]);
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), answer.stop), ("Hello, you", Stop::Finished));
    assert_eq!(heard[0], Delta::Reasoning("Hm.".to_owned()));
    assert_eq!(heard.len(), 3);
}

#[test]
fn parallel_calls_are_told_apart_by_index() {
    check_calls(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"shell","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"call_b","function":{"name":"list_files","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"ls\"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            "[DONE]",
        ],
        &[("call_a", "shell", json!({"command": "ls"})), ("call_b", "list_files", json!({}))],
    );
}

#[test]
fn whole_calls_without_id_or_index_are_understood() {
    let done = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    // Two whole calls in one chunk, no ids, no indexes, arguments as objects.
    check_calls(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":{"x":1}}},{"function":{"name":"b","arguments":"{}"}}]}}]}"#,
            done,
        ],
        &[("call_0", "a", json!({"x": 1})), ("call_1", "b", json!({}))],
    );
    // Two calls that both say index 0.
    check_calls(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"2","function":{"name":"b","arguments":"{}"}}]}}]}"#,
            done,
        ],
        &[("1", "a", json!({})), ("2", "b", json!({}))],
    );
    // Arguments in pieces, with neither.
    check_calls(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":":2}"}}]}}]}"#,
            done,
        ],
        &[("call_0", "a", json!({"x": 2}))],
    );
    // The id and the name again in every piece.
    check_calls(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"z","function":{"name":"a","arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"z","function":{"name":"a","arguments":":3}"}}]}}]}"#,
            done,
        ],
        &[("z", "a", json!({"x": 3}))],
    );
}

#[track_caller]
fn check_bad(events: &[&str], expected: &str) {
    assert_eq!(read(events).1.unwrap_err(), expected);
}

#[test]
fn what_is_malformed_is_refused_with_a_reason() {
    check_bad(&[], "the provider's answer ended without saying why");
    check_bad(
        &[r#"{"choices":[{"delta":{"content":"x"}}]}"#],
        "the provider's answer ended without saying why",
    );
    check_bad(&[r#"{"choices":7}"#], "the provider's event `chunk` has no usable `choices`");
    check_bad(
        &[r#"{"choices":[{"delta":{"content":7}}]}"#],
        "the provider's event `chunk` has no usable `content`",
    );
    check_bad(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
        ],
        "the provider's event `tool call` has no usable `name`",
    );
    check_bad(
        &[r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#],
        "the provider stopped for tools and called none",
    );
    check_bad(
        &[r#"{"error":{"message":"The server had an error","type":"server_error"}}"#],
        "The server had an error (server_error)",
    );
    check_bad(
        &[r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#],
        "the model declined to answer",
    );
}

#[test]
fn the_next_round_has_calls_and_results() {
    let answer = read(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_a","function":{"name":"shell","arguments":"{\"command\":"}}]},"finish_reason":"tool_calls"}]}"#,
    ]);
    let result = ToolResult {
        call: "call_a".to_owned(),
        content: "bad arguments".to_owned(),
        outcome: ToolOutcome::Failed,
    };
    let conversation = Conversation {
        system: "Be brief.".to_owned(),
        entries: vec![
            Entry::User("Look.".to_owned()),
            Entry::Answer(answer.1.unwrap()),
            Entry::Results(vec![result]),
        ],
        tools: Vec::new(),
    };
    assert_eq!(
        Chat::new(&config()).body(&conversation),
        json!({
            "model": "gpt-test",
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0.5,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "call_a", "type": "function", "function": {"name": "shell", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "call_a", "content": "bad arguments"},
            ],
        })
    );
}
