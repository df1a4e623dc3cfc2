//! Arbitrary bytes as command requests, control messages and text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{CommandRequest, ControlMessage, NewSandbox, TextDecoder};

fuzz_target!(|input: &[u8]| {
    let _ = serde_json::from_slice::<CommandRequest>(input);
    let _ = serde_json::from_slice::<ControlMessage>(input);
    let _ = serde_json::from_slice::<NewSandbox>(input);
    let mut decoder = TextDecoder::default();
    let text: String = input.chunks(3).map(|piece| decoder.push(piece)).collect();
    assert!(text.len() + decoder.finish().len() <= input.len() * 3);
});
