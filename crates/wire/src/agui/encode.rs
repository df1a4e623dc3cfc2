//! The three forms of a stream: server-sent events, NDJSON, and protobuf.

use serde::Serialize;

use super::{AguiEvent, Position, proto};

/// The media type of the stream as server-sent events.
pub const SSE_TYPE: &str = "text/event-stream";

/// The media type of the stream as one JSON object a line.
pub const NDJSON_TYPE: &str = "application/vnd.ag-ui.event+ndjson";

/// The media type of the stream as protobuf. `@ag-ui/client` compares it as a
/// whole, so an answer bears it without parameters.
pub const PROTO_TYPE: &str = "application/vnd.ag-ui.event+proto";

/// Appends the event as a server-sent one. JSON has no line breaks of its own,
/// so it is one `data` line.
pub fn encode_sse(event: &AguiEvent, id: Option<Position>, out: &mut Vec<u8>) {
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    out.extend_from_slice(b"data: ");
    put_json(event, out);
    out.extend_from_slice(b"\n\n");
}

/// Appends the event as a line.
pub fn encode_ndjson(event: &AguiEvent, out: &mut Vec<u8>) {
    put_json(event, out);
    out.push(b'\n');
}

/// Appends the event as a message: four bytes of length, big endian, and then
/// protobuf.
pub fn encode_proto(event: &AguiEvent, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    proto::put_event(event, out);
    // An entry of a log has at most 4 MiB, and no value grows by a factor of 6.
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_json(event: &impl Serialize, out: &mut Vec<u8>) {
    // Every key is a string, every number is finite, and memory takes all bytes.
    let written = serde_json::to_writer(out, event);
    debug_assert!(written.is_ok());
}
