//! The body of a request to Anthropic's Messages.

use serde_json::{Map, Value, json};
use wire::agent::ModelConfig;

use crate::model::{Conversation, Entry, ToolOutcome};

/// Most tokens of an answer, when the configuration does not say: the API
/// wants a number, and every model of the last years takes this one.
const MAX_TOKENS: u32 = 8192;

pub(super) fn body(config: &ModelConfig, conversation: &Conversation) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(config.name));
    body.insert("max_tokens".to_owned(), json!(config.max_tokens.unwrap_or(MAX_TOKENS)));
    body.insert("stream".to_owned(), json!(true));
    if !conversation.system.is_empty() {
        body.insert("system".to_owned(), json!(conversation.system));
    }
    if let Some(temperature) = config.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if !conversation.tools.is_empty() {
        let tools = conversation.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    body.insert("messages".to_owned(), messages(&conversation.entries));
    Value::Object(body)
}

/// Neighbours of one role are one message: the API wants them to take turns.
fn messages(entries: &[Entry]) -> Value {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for entry in entries {
        let (role, blocks) = blocks(entry);
        match messages.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, before)) if *last == role => before.extend(blocks),
            Some(_) | None => messages.push((role, blocks)),
        }
    }
    messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn blocks(entry: &Entry) -> (&'static str, Vec<Value>) {
    // The API takes no empty text.
    let text = |text: &str| match text.trim() {
        "" => Vec::new(),
        _ => vec![json!({"type": "text", "text": text})],
    };
    match entry {
        Entry::User(said) => ("user", text(said)),
        Entry::Assistant(said) => ("assistant", text(said)),
        Entry::Answer(answer) => ("assistant", answer.replay.clone()),
        Entry::Earlier { text: said, calls } => {
            let calls = calls.iter().map(|call| {
                let input = call.arguments.object();
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
            });
            ("assistant", text(said).into_iter().chain(calls).collect())
        }
        Entry::Results(results) => {
            let results = results.iter().map(|result| {
                let mut block = json!({
                    "type": "tool_result",
                    "tool_use_id": result.call,
                    "content": result.content,
                });
                match result.outcome {
                    ToolOutcome::Succeeded => {}
                    ToolOutcome::Failed => block["is_error"] = json!(true),
                }
                block
            });
            ("user", results.collect())
        }
    }
}
