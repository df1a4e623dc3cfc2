//! Codex's items as steps: what it does, in the names that its own streams have
//! for them.

use serde_json::{Value, json};
use wire::run::Outcome;

use crate::harness::job::BRIDGE;

/// The id of an item.
pub(super) fn id(item: &Value) -> &str {
    text(item, "id")
}

/// Its type.
pub(super) fn kind(item: &Value) -> &str {
    text(item, "type")
}

/// The name and the arguments of the step that an item is; nothing for those
/// that are none, and for the caller's tools, which the host books.
pub(super) fn step(item: &Value) -> Option<(String, Value)> {
    let step = match kind(item) {
        "commandExecution" => ("command_execution", json!({"command": item["command"]})),
        "fileChange" => ("file_change", json!({"changes": changes(item)})),
        "webSearch" => ("web_search", json!({"query": item["query"]})),
        "imageView" => ("image_view", json!({"path": item["path"]})),
        "imageGeneration" => ("image_generation", json!({"prompt": item["revisedPrompt"]})),
        "collabAgentToolCall" => {
            ("collab_agent", json!({"tool": item["tool"], "prompt": item["prompt"]}))
        }
        "mcpToolCall" if text(item, "server") != BRIDGE => {
            return Some((tool(item), item["arguments"].clone()));
        }
        _ => return None,
    };
    Some((step.0.to_owned(), step.1))
}

/// The name of an MCP server's tool; the caller's have no prefix.
pub(super) fn tool(item: &Value) -> String {
    match text(item, "server") {
        BRIDGE => text(item, "tool").to_owned(),
        server => format!("mcp__{server}__{}", text(item, "tool")),
    }
}

/// How an item ended.
pub(super) fn outcome(item: &Value) -> Outcome {
    let status = text(item, "status");
    let result = match kind(item) {
        "commandExecution" => json!({
            "aggregated_output": text(item, "aggregatedOutput"),
            "exit_code": item["exitCode"],
            "status": status,
        }),
        "fileChange" => json!({"changes": changes(item), "status": status}),
        "mcpToolCall" => returned(&item["result"]),
        "webSearch" => json!({"query": item["query"], "action": item["action"]}),
        _ => json!({"status": status}),
    };
    if !matches!(status, "failed" | "declined") {
        return Outcome::Succeeded { result, truncated: false };
    }
    let error = match (item["exitCode"].as_i64(), item["error"]["message"].as_str()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(message)) => message.to_owned(),
        (None, None) => status.to_owned(),
    };
    Outcome::Failed { error, result: Some(result).filter(|result| !result.is_null()) }
}

/// Every path that an item writes to.
pub(super) fn paths(item: &Value) -> Vec<&str> {
    let changes = item["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let paths = changes.iter().flat_map(|change| {
        [change["path"].as_str(), change.pointer("/kind/move_path").and_then(Value::as_str)]
    });
    paths.flatten().collect()
}

/// What a patch changes, without the patch.
fn changes(item: &Value) -> Value {
    let changes = item["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    changes
        .iter()
        .map(|change| json!({"path": change["path"], "kind": change["kind"]["type"]}))
        .collect()
}

/// What a tool returned: structured content as it is, texts as one text, and
/// anything else in the blocks that it came in.
fn returned(result: &Value) -> Value {
    if !result["structuredContent"].is_null() {
        return result["structuredContent"].clone();
    }
    let Some(blocks) = result["content"].as_array() else { return Value::Null };
    let texts: Option<Vec<&str>> = blocks
        .iter()
        .map(|block| block["text"].as_str().filter(|_| block["type"] == "text"))
        .collect();
    match texts {
        Some(texts) => Value::String(texts.join("\n")),
        None => result["content"].clone(),
    }
}

fn text<'a>(item: &'a Value, field: &str) -> &'a str {
    item[field].as_str().unwrap_or_default()
}
