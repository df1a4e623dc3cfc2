//! The body of a request to Chat Completions.

use serde_json::{Map, Value, json};
use wire::agent::ModelConfig;

use crate::model::{Conversation, Entry, ToolCall};

pub(super) fn body(config: &ModelConfig, conversation: &Conversation) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(config.name));
    body.insert("stream".to_owned(), json!(true));
    // The host link counts tokens as they pass; without this none are told.
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    if let Some(most) = config.max_tokens {
        body.insert("max_tokens".to_owned(), json!(most));
    }
    if let Some(temperature) = config.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if !conversation.tools.is_empty() {
        let tools = conversation.tools.iter().map(|tool| {
            let function = json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
            });
            json!({"type": "function", "function": function})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    let mut messages = Vec::new();
    if !conversation.system.is_empty() {
        messages.push(json!({"role": "system", "content": conversation.system}));
    }
    for entry in &conversation.entries {
        match entry {
            Entry::User(text) => messages.push(json!({"role": "user", "content": text})),
            Entry::Assistant(text) => {
                messages.push(json!({"role": "assistant", "content": text}));
            }
            Entry::Answer(answer) => messages.push(assistant(&answer.text, &answer.calls)),
            Entry::Earlier { text, calls } => messages.push(assistant(text, calls)),
            Entry::Results(results) => messages.extend(results.iter().map(|result| {
                json!({"role": "tool", "tool_call_id": result.call, "content": result.content})
            })),
        }
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

fn assistant(text: &str, calls: &[ToolCall]) -> Value {
    if calls.is_empty() {
        return json!({"role": "assistant", "content": text});
    }
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let calls = calls.iter().map(|call| {
        let function = json!({"name": call.name, "arguments": call.arguments.text()});
        json!({"id": call.id, "type": "function", "function": function})
    });
    json!({"role": "assistant", "content": content, "tool_calls": calls.collect::<Vec<_>>()})
}
