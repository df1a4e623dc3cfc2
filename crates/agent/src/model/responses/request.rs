//! The body of a request to Responses.

use serde_json::{Map, Value, json};
use wire::agent::ModelConfig;

use crate::model::{Conversation, Entry};

/// Models of these families do not reason, and refuse to be asked for it.
const PLAIN: &[&str] = &["gpt-3", "gpt-4", "chatgpt-4o"];

pub(super) fn body(config: &ModelConfig, conversation: &Conversation) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(config.name));
    body.insert("stream".to_owned(), json!(true));
    body.insert("store".to_owned(), json!(false));
    if !PLAIN.iter().any(|family| config.name.starts_with(family)) {
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    }
    if !conversation.system.is_empty() {
        body.insert("instructions".to_owned(), json!(conversation.system));
    }
    if let Some(most) = config.max_tokens {
        body.insert("max_output_tokens".to_owned(), json!(most));
    }
    if let Some(temperature) = config.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if !conversation.tools.is_empty() {
        let tools = conversation.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": false,
            })
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    let mut input = Vec::new();
    for entry in &conversation.entries {
        match entry {
            Entry::User(text) => input.push(said("user", "input_text", text)),
            Entry::Assistant(text) => input.push(said("assistant", "output_text", text)),
            Entry::Answer(answer) => input.extend(answer.replay.iter().cloned()),
            Entry::Earlier { text, calls } => {
                if !text.is_empty() {
                    input.push(said("assistant", "output_text", text));
                }
                input.extend(calls.iter().map(|call| {
                    json!({
                        "type": "function_call",
                        "call_id": call.id,
                        "name": call.name,
                        "arguments": call.arguments.text(),
                    })
                }));
            }
            Entry::Results(results) => input.extend(results.iter().map(|result| {
                json!({
                    "type": "function_call_output",
                    "call_id": result.call,
                    "output": result.content,
                })
            })),
        }
    }
    body.insert("input".to_owned(), Value::Array(input));
    Value::Object(body)
}

/// A message as an item.
pub(super) fn said(role: &str, kind: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}
