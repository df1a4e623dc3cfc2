//! A command's output: how bytes become data events, and the fast encoder for them.
//!
//! A terminal's and a pipe's bytes reach clients as `data` events. For pipes an
//! event is a line with its newline; a line over 32 KiB is cut. The cut depends
//! on the bytes alone, so events can be counted and found again without being
//! stored one by one.
//!
//! Data events are nearly all that a busy stream carries. Their encoder writes
//! the frame straight into the output buffer; tests hold it to the bytes that
//! the generated types give.

use bytes::{BufMut, BytesMut};
use serde::{Deserialize, Serialize};

use crate::{Codec, envelope::put_header};

/// Where output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// The command's standard output.
    Stdout,
    /// Its standard error.
    Stderr,
    /// Its terminal.
    Pty,
}

impl Stream {
    /// The name in every format.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Pty => "pty",
        }
    }

    /// Most bytes in one data event.
    pub const fn event_limit(self) -> usize {
        match self {
            Stream::Stdout | Stream::Stderr => 32 << 10,
            Stream::Pty => 16 << 10,
        }
    }

    fn field(self) -> u8 {
        match self {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
            Stream::Pty => 3,
        }
    }
}

/// Length of the first event in `bytes`, which must not be empty: one line for
/// a pipe, whatever there is for a terminal, and never over the limit.
pub fn next_event(stream: Stream, bytes: &[u8]) -> usize {
    let window = &bytes[..bytes.len().min(stream.event_limit())];
    match stream {
        Stream::Stdout | Stream::Stderr => {
            memchr::memchr(b'\n', window).map_or(window.len(), |at| at + 1)
        }
        Stream::Pty => window.len(),
    }
}

/// How many events `bytes` make.
pub fn events_in(stream: Stream, bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    let mut count = 0;
    while !rest.is_empty() {
        rest = &rest[next_event(stream, rest)..];
        count += 1;
    }
    count
}

/// Appends `bytes` as framed data events (`{"event":{"data":{"stdout":"…"}}}`),
/// one for each event in it, until `out` is `enough` bytes long: short lines
/// grow tenfold. Returns how many of `bytes` that took.
pub fn encode_data(
    codec: Codec,
    stream: Stream,
    bytes: &[u8],
    enough: usize,
    out: &mut BytesMut,
) -> usize {
    let mut rest = bytes;
    while !rest.is_empty() && out.len() < enough {
        let (event, tail) = rest.split_at(next_event(stream, rest));
        rest = tail;
        match codec {
            Codec::Json => encode_json(stream, event, out),
            Codec::Proto => encode_proto(stream, event, out),
        }
    }
    bytes.len() - rest.len()
}

fn encode_json(stream: Stream, event: &[u8], out: &mut BytesMut) {
    const BEFORE: &str = r#"{"event":{"data":{""#;
    const BETWEEN: &str = r#"":""#;
    const AFTER: &str = r#""}}}"#;
    let base64 = base64_simd::STANDARD;
    let encoded = base64.encoded_length(event.len());
    let name = stream.name();
    let length = BEFORE.len() + name.len() + BETWEEN.len() + encoded + AFTER.len();
    out.reserve(length + 5);
    put_header(0, length, out);
    out.put_slice(BEFORE.as_bytes());
    out.put_slice(name.as_bytes());
    out.put_slice(BETWEEN.as_bytes());
    let at = out.len();
    out.resize(at + encoded, 0);
    let _ = base64.encode(event, base64_simd::Out::from_slice(&mut out[at..]));
    out.put_slice(AFTER.as_bytes());
}

/// Three nested messages (`event`, `data`, the bytes), each a tag and a length.
fn encode_proto(stream: Stream, event: &[u8], out: &mut BytesMut) {
    const LENGTH_DELIMITED: u8 = 2;
    const EVENT: u8 = 1;
    const DATA: u8 = 2;
    let field = |number: u8| number << 3 | LENGTH_DELIMITED;
    let data = 1 + varint_len(event.len()) + event.len();
    let process_event = 1 + varint_len(data) + data;
    let length = 1 + varint_len(process_event) + process_event;
    out.reserve(length + 5);
    put_header(0, length, out);
    out.put_u8(field(EVENT));
    put_varint(process_event, out);
    out.put_u8(field(DATA));
    put_varint(data, out);
    out.put_u8(field(stream.field()));
    put_varint(event.len(), out);
    out.put_slice(event);
}

fn varint_len(value: usize) -> usize {
    1 + value.checked_ilog2().unwrap_or(0) as usize / 7
}

fn put_varint(mut value: usize, out: &mut BytesMut) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use proptest::prelude::*;

    use super::{Stream, encode_data, events_in};
    use crate::{Codec, frame, process as pb};

    const ALL: usize = usize::MAX;
    const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];

    /// What the generated types make of one data event.
    fn generated(codec: Codec, stream: Stream, event: &[u8]) -> BytesMut {
        let bytes = Bytes::copy_from_slice(event);
        let output = match stream {
            Stream::Stdout => pb::process_event::data_event::Output::Stdout(bytes),
            Stream::Stderr => pb::process_event::data_event::Output::Stderr(bytes),
            Stream::Pty => pb::process_event::data_event::Output::Pty(bytes),
        };
        let data = pb::process_event::DataEvent { output: Some(output) };
        let mut out = BytesMut::new();
        frame(&codec.encode(&pb::response(data)), &mut out);
        out
    }

    #[test]
    fn a_data_event_has_golden_bytes() {
        let mut out = BytesMut::new();
        encode_data(Codec::Json, Stream::Stdout, b"hello\n", ALL, &mut out);
        assert_eq!(&out[..], b"\0\0\0\0\x28{\"event\":{\"data\":{\"stdout\":\"aGVsbG8K\"}}}");
        out.clear();
        encode_data(Codec::Proto, Stream::Stderr, b"oops\n", ALL, &mut out);
        assert_eq!(&out[..], b"\0\0\0\0\x0b\x0a\x09\x12\x07\x12\x05oops\n");
    }

    #[test]
    fn a_line_is_an_event_and_a_long_line_is_cut() {
        assert_eq!(events_in(Stream::Stdout, b"1\n2\n3"), 3);
        assert_eq!(events_in(Stream::Pty, b"1\n2\n3"), 1);
        assert_eq!(events_in(Stream::Stderr, &vec![b'x'; (32 << 10) + 1]), 2);
        assert_eq!(events_in(Stream::Stdout, b""), 0);
    }

    proptest! {
        #[test]
        fn the_fast_encoder_agrees_with_the_generated_types(
            event in prop::collection::vec(any::<u8>(), 1..400),
            stream in prop::sample::select(&STREAMS[..]),
        ) {
            // One event: no newline but the last byte.
            let mut event: Vec<u8> = event.into_iter().filter(|b| *b != b'\n').collect();
            event.push(b'\n');
            for codec in [Codec::Json, Codec::Proto] {
                let mut out = BytesMut::new();
                encode_data(codec, stream, &event, ALL, &mut out);
                prop_assert_eq!(&out, &generated(codec, stream, &event));
            }
        }

        #[test]
        fn no_byte_is_lost(
            bytes in prop::collection::vec(prop::sample::select(&b"\nabc"[..]), 0..3000),
            pace in 1usize..500,
            stream in prop::sample::select(&STREAMS[..]),
        ) {
            let mut out = BytesMut::new();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let enough = out.len() + pace;
                rest = &rest[encode_data(Codec::Proto, stream, rest, enough, &mut out)..];
                prop_assert!(out.len() < enough + stream.event_limit() + 32);
            }
            let mut decoder = crate::EnvelopeDecoder::new(1 << 20);
            decoder.push(&out);
            let mut seen = Vec::new();
            let mut events = 0;
            while let Some(crate::Envelope::Message(payload)) = decoder.pop().unwrap() {
                let message: pb::StartResponse = Codec::Proto.decode(&payload).unwrap();
                let Some(pb::process_event::Event::Data(data)) = &message.event.event else {
                    panic!("not a data event");
                };
                match data.output.as_ref().unwrap() {
                    pb::process_event::data_event::Output::Stdout(b)
                    | pb::process_event::data_event::Output::Stderr(b)
                    | pb::process_event::data_event::Output::Pty(b) => seen.extend_from_slice(b),
                }
                events += 1;
            }
            prop_assert_eq!(seen, bytes.clone());
            prop_assert_eq!(events, events_in(stream, &bytes));
        }
    }
}
