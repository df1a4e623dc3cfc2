//! Every event has golden bytes in each form. Those of the binary form are what
//! `@ag-ui/proto` 1.0.0 itself makes of the same JSON.

use proptest::prelude::*;
use serde_json::Value;

use crate::agui::{AguiEvent, AguiKind, Position, encode_ndjson, encode_proto, encode_sse};
use crate::codec::hex;
use crate::run::strategies::value;

/// Events as JSON and as protobuf.
const GOLDEN: [(&str, &str); 18] = [
    (
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0","timestamp":1700000000000,"metadata":{"mayfly":{"harness":"builtin","runId":"r"}}}"#,
        "624a0a3d080b1080d095ffbc3122320a300a066d6179666c7912262a240a140a076861726e65737312091a076275696c74696e0a0c0a0572756e496412031a01721201741a01723203312e30",
    ),
    (
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":{"message":"hi"},"outcome":{"type":"success","pendingToolCallIds":["a","b"]},"usage":[{"provider":"p","model":"m","inputTokens":300,"outputTokens":2,"totalTokens":302,"cachedInputTokens":0,"cacheWriteInputTokens":1}],"timestamp":1}"#,
        "6a440a04080c10011201741a017222132a110a0f0a076d65737361676512041a0268692a07737563636573733a120a017012016d18ac02200228ae0238004001420161420162",
    ),
    (
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":{"message":""},"outcome":{"type":"success"},"metadata":{"tanstack":{"finishReason":"stop"}}}"#,
        "6a500a2c080c22280a260a0874616e737461636b121a2a180a160a0c66696e697368526561736f6e12061a0473746f701201741a017222112a0f0a0d0a076d65737361676512021a002a0773756363657373",
    ),
    (
        r#"{"type":"RUN_ERROR","message":"no","code":"internal","usage":[{"inputTokens":1,"outputTokens":2,"totalTokens":3,"cachedInputTokens":0,"cacheWriteInputTokens":0}]}"#,
        "721e0a02080d1208696e7465726e616c1a026e6f220a18012002280338004000",
    ),
    (
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
        "0a100a0012016d1a09617373697374616e74",
    ),
    (
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hä","timestamp":9007199254740991}"#,
        "12150a0b080110ffffffffffffff0f12016d1a0368c3a4",
    ),
    (r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#, "1a070a02080212016d"),
    (r#"{"type":"REASONING_START","messageId":"m"}"#, "ca01070a0208181a016d"),
    (
        r#"{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}"#,
        "d201120a0208191a016d2209726561736f6e696e67",
    ),
    (
        r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"d"}"#,
        "da010a0a02081a1a016d220164",
    ),
    (r#"{"type":"REASONING_MESSAGE_END","messageId":"m"}"#, "e201070a02081b1a016d"),
    (r#"{"type":"REASONING_END","messageId":"m"}"#, "f201070a02081d1a016d"),
    (
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"shell","parentMessageId":"m"}"#,
        "22110a0208031201631a057368656c6c22016d",
    ),
    (r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}"#, "2a0b0a0208041201631a027b7d"),
    (r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#, "32070a020805120163"),
    (
        r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"","role":"tool"}"#,
        "b201120a0208151a016d2201632a003204746f6f6c",
    ),
    (r#"{"type":"CUSTOM","name":"n","value":null}"#, "5a0b0a02080a12016e1a020800"),
    (
        r#"{"type":"CUSTOM","name":"n","value":{"a":[true,false,[],{}],"b":-1.5,"c":"","d":0}}"#,
        "5a4d0a02080a12016e1a442a420a170a0161121232100a0220010a0220000a0232000a022a000a0e0a0162120911000000000000f8bf0a070a016312021a000a0e0a01641209110000000000000000",
    ),
];

#[test]
fn every_event_has_golden_bytes() {
    for (json, binary) in GOLDEN {
        let event: AguiEvent = serde_json::from_str(json).unwrap();
        let mut out = Vec::new();
        encode_ndjson(&event, &mut out);
        assert_eq!(out.strip_suffix(b"\n").map(str::from_utf8), Some(Ok(json)));

        let mut out = Vec::new();
        encode_proto(&event, &mut out);
        let (length, message) = out.split_first_chunk().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, message.len());
        assert_eq!(hex(message), binary, "{json}");
    }
}

#[test]
fn a_server_sent_event_is_one_line_of_data_with_its_id() {
    let event: AguiEvent = serde_json::from_str(GOLDEN[4].0).unwrap();
    let mut out = Vec::new();
    encode_sse(&event, Some(Position::within(7, 0, 2)), &mut out);
    encode_sse(&event, None, &mut out);
    let data = GOLDEN[4].0;
    assert_eq!(str::from_utf8(&out).unwrap(), format!("id: 7.1\ndata: {data}\n\ndata: {data}\n\n"));
}

proptest! {
    #[test]
    fn any_value_reads_back_from_protobuf(value in value(), name in ".{0,300}") {
        let kind = AguiKind::Custom { name, value: value.clone() };
        let mut out = Vec::new();
        encode_proto(&AguiEvent { kind, timestamp: None, metadata: None }, &mut out);
        let (_, custom) = fields(&out[4..]).remove(0);
        let (number, read) = fields(custom.bytes()).remove(2);
        prop_assert_eq!(number, 3);
        prop_assert!(same(&read_value(read.bytes()), &value));
    }
}

/// One field of a message: a plain number, eight bytes, or a length of bytes.
enum Held<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

impl<'a> Held<'a> {
    fn bytes(&self) -> &'a [u8] {
        let Held::Bytes(bytes) = self else { panic!("a number") };
        bytes
    }
}

/// A reader as plain as can be.
fn fields(mut message: &[u8]) -> Vec<(u64, Held<'_>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = take_varint(&mut message);
        let held = match tag & 7 {
            0 => Held::Number(take_varint(&mut message)),
            1 => {
                let (double, rest) = message.split_first_chunk().unwrap();
                message = rest;
                Held::Double(f64::from_le_bytes(*double))
            }
            2 => {
                let length = take_varint(&mut message) as usize;
                let (bytes, rest) = message.split_at(length);
                message = rest;
                Held::Bytes(bytes)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, held));
    }
    fields
}

fn take_varint(message: &mut &[u8]) -> u64 {
    let size = message.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let (bytes, rest) = message.split_at(size);
    *message = rest;
    bytes.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}

fn read_value(message: &[u8]) -> Value {
    match fields(message).remove(0) {
        (1, Held::Number(0)) => Value::Null,
        (2, Held::Double(number)) => number.into(),
        (3, Held::Bytes(text)) => str::from_utf8(text).unwrap().into(),
        (4, Held::Number(truth)) => (truth == 1).into(),
        (5, Held::Bytes(object)) => fields(object)
            .into_iter()
            .map(|(_, entry)| {
                let entry = fields(entry.bytes());
                let key = str::from_utf8(entry[0].1.bytes()).unwrap().to_owned();
                (key, read_value(entry[1].1.bytes()))
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        (6, Held::Bytes(list)) => {
            fields(list).into_iter().map(|(_, item)| read_value(item.bytes())).collect()
        }
        (number, _) => panic!("field {number}"),
    }
}

/// The same value, where numbers are doubles.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((one, left), (other, right))| one == other && same(left, right))
        }
        _ => left == right,
    }
}
