//! Arbitrary bytes as server-sent events, whole and in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::sse::{Decoder, Event};

const LIMIT: usize = 256;

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, stream) = input;
    let pieces = decode(stream, usize::from(cut) + 1);
    assert_eq!(pieces, decode(stream, stream.len().max(1)));
});

/// The events before the first error, and whether there was one.
fn decode(stream: &[u8], piece: usize) -> (Vec<Event>, bool) {
    let mut decoder = Decoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in stream.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.pop() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => return (events, true),
            }
        }
    }
    (events, false)
}
