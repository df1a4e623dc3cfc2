//! Arbitrary bytes as a stream of envelopes, in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::EnvelopeDecoder;

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, stream) = input;
    let mut decoder = EnvelopeDecoder::new(4096);
    for piece in stream.chunks(usize::from(cut) + 1) {
        decoder.push(piece);
        while let Ok(Some(_)) = decoder.pop() {}
    }
    let _ = decoder.finish();
});
