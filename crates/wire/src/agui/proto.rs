//! The event as protobuf, with the field numbers of `@ag-ui/proto` 1.0.0.
//!
//! Written by hand: sixteen flat messages of strings are shorter than a
//! description of them and the code that would fill what is generated from it.
//!
//! Everything that we emit has a place in that format, `CUSTOM` and reasoning
//! included. What differs from JSON is numbers: a number inside a value is a
//! double there, so integers beyond 2^53 lose their last digits, as they do in
//! any JavaScript reader of the JSON. Readers before 1.0 know neither reasoning
//! nor tool results in this form; they fail, and have to ask for JSON.

use serde_json::{Map, Value};

use super::{AguiEvent, AguiKind, AguiRole, AguiUsage, RunOutcome};

/// Appends the envelope: one field, whose number says which event it is.
pub(super) fn put_event(event: &AguiEvent, out: &mut Vec<u8>) {
    let (field, code) = numbers(&event.kind);
    put_message(field, out, |out| {
        put_message(1, out, |out| put_base(event, code, out));
        put_fields(&event.kind, out);
    });
}

/// The envelope's field and the value of `EventType` for each event.
fn numbers(kind: &AguiKind) -> (u32, u64) {
    match kind {
        AguiKind::TextMessageStart { .. } => (1, 0),
        AguiKind::TextMessageContent { .. } => (2, 1),
        AguiKind::TextMessageEnd { .. } => (3, 2),
        AguiKind::ToolCallStart { .. } => (4, 3),
        AguiKind::ToolCallArgs { .. } => (5, 4),
        AguiKind::ToolCallEnd { .. } => (6, 5),
        AguiKind::Custom { .. } => (11, 10),
        AguiKind::RunStarted { .. } => (12, 11),
        AguiKind::RunFinished { .. } => (13, 12),
        AguiKind::RunError { .. } => (14, 13),
        AguiKind::ToolCallResult { .. } => (22, 21),
        AguiKind::ReasoningStart { .. } => (25, 24),
        AguiKind::ReasoningMessageStart { .. } => (26, 25),
        AguiKind::ReasoningMessageContent { .. } => (27, 26),
        AguiKind::ReasoningMessageEnd { .. } => (28, 27),
        AguiKind::ReasoningEnd { .. } => (30, 29),
    }
}

fn put_base(event: &AguiEvent, code: u64, out: &mut Vec<u8>) {
    // Zero is what a reader takes for a number that is not there.
    if code != 0 {
        put_number(1, code, out);
    }
    if let Some(timestamp) = event.timestamp {
        put_number(2, timestamp, out);
    }
    if let Some(metadata) = &event.metadata {
        put_message(4, out, |out| put_object(metadata, out));
    }
}

fn put_fields(kind: &AguiKind, out: &mut Vec<u8>) {
    match kind {
        AguiKind::RunStarted { thread_id, run_id, protocol_version } => {
            put_text(2, thread_id, out);
            put_text(3, run_id, out);
            put_text(6, protocol_version, out);
        }
        AguiKind::RunFinished { thread_id, run_id, result, outcome, usage } => {
            put_text(2, thread_id, out);
            put_text(3, run_id, out);
            put_message(4, out, |out| put_value(result, out));
            let RunOutcome::Success { pending_tool_call_ids } = outcome;
            put_text(5, "success", out);
            put_usage(7, usage, out);
            for id in pending_tool_call_ids {
                put_text(8, id, out);
            }
        }
        AguiKind::RunError { message, code, usage } => {
            put_text(2, code, out);
            put_text(3, message, out);
            put_usage(4, usage, out);
        }
        AguiKind::TextMessageStart { message_id, role } => {
            put_text(2, message_id, out);
            put_role(3, *role, out);
        }
        AguiKind::TextMessageContent { message_id, delta } => {
            put_text(2, message_id, out);
            put_text(3, delta, out);
        }
        AguiKind::TextMessageEnd { message_id } => put_text(2, message_id, out),
        AguiKind::ReasoningStart { message_id }
        | AguiKind::ReasoningMessageEnd { message_id }
        | AguiKind::ReasoningEnd { message_id } => put_text(3, message_id, out),
        AguiKind::ReasoningMessageStart { message_id, role } => {
            put_text(3, message_id, out);
            put_role(4, *role, out);
        }
        AguiKind::ReasoningMessageContent { message_id, delta } => {
            put_text(3, message_id, out);
            put_text(4, delta, out);
        }
        AguiKind::ToolCallStart { tool_call_id, tool_call_name, parent_message_id } => {
            put_text(2, tool_call_id, out);
            put_text(3, tool_call_name, out);
            put_text(4, parent_message_id, out);
        }
        AguiKind::ToolCallArgs { tool_call_id, delta } => {
            put_text(2, tool_call_id, out);
            put_text(3, delta, out);
        }
        AguiKind::ToolCallEnd { tool_call_id } => put_text(2, tool_call_id, out),
        AguiKind::ToolCallResult { message_id, tool_call_id, content, role } => {
            put_text(3, message_id, out);
            put_text(4, tool_call_id, out);
            put_text(5, content, out);
            put_role(6, *role, out);
        }
        AguiKind::Custom { name, value } => {
            put_text(2, name, out);
            put_message(3, out, |out| put_value(value, out));
        }
    }
}

fn put_role(field: u32, role: AguiRole, out: &mut Vec<u8>) {
    put_text(field, role.name(), out);
}

fn put_usage(field: u32, usage: &[AguiUsage], out: &mut Vec<u8>) {
    for item in usage {
        put_message(field, out, |out| {
            for (field, text) in [(1, &item.provider), (2, &item.model)] {
                if let Some(text) = text {
                    put_text(field, text, out);
                }
            }
            put_number(3, item.input_tokens, out);
            put_number(4, item.output_tokens, out);
            put_number(5, item.total_tokens, out);
            put_number(7, item.cached_input_tokens, out);
            put_number(8, item.cache_write_input_tokens, out);
        });
    }
}

/// A `google.protobuf.Value`: its one field says which kind it is, so that it is
/// written even when it is zero or empty.
fn put_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => put_number(1, 0, out),
        Value::Number(number) => {
            put_tag(2, 1, out);
            let number = number.as_f64().unwrap_or_default();
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::String(text) => put_text(3, text, out),
        Value::Bool(truth) => put_number(4, u64::from(*truth), out),
        Value::Object(object) => put_message(5, out, |out| put_object(object, out)),
        Value::Array(list) => put_message(6, out, |out| {
            for item in list {
                put_message(1, out, |out| put_value(item, out));
            }
        }),
    }
}

/// A `google.protobuf.Struct`.
fn put_object(object: &Map<String, Value>, out: &mut Vec<u8>) {
    for (key, value) in object {
        put_message(1, out, |out| {
            put_text(1, key, out);
            put_message(2, out, |out| put_value(value, out));
        });
    }
}

/// A message's length stands before it and is known only behind it, so its bytes
/// are moved up once for each level they are in. A log has at most 128 levels.
fn put_message(field: u32, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    put_tag(field, 2, out);
    let start = out.len();
    fill(out);
    let (length, size) = varint((out.len() - start) as u64);
    out.splice(start..start, length.into_iter().take(size));
}

fn put_text(field: u32, text: &str, out: &mut Vec<u8>) {
    put_tag(field, 2, out);
    put_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn put_number(field: u32, number: u64, out: &mut Vec<u8>) {
    put_tag(field, 0, out);
    put_varint(number, out);
}

fn put_tag(field: u32, wire_type: u64, out: &mut Vec<u8>) {
    put_varint(u64::from(field) << 3 | wire_type, out);
}

fn put_varint(number: u64, out: &mut Vec<u8>) {
    let (bytes, size) = varint(number);
    out.extend_from_slice(&bytes[..size]);
}

/// Seven bits a byte, the lowest first; the high bit says that more follow.
fn varint(mut number: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut size = 0;
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes[size] = if number == 0 { low } else { low | 0x80 };
        size += 1;
        if number == 0 {
            return (bytes, size);
        }
    }
}
