//! Arbitrary bytes as messages of process.Process, in both codecs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Codec, process as pb};

fuzz_target!(|input: &[u8]| {
    for codec in [Codec::Json, Codec::Proto] {
        if let Ok(request) = codec.decode::<pb::StartRequest>(input) {
            let again = codec.decode::<pb::StartRequest>(&codec.encode(&request));
            assert_eq!(again.expect("what we wrote reads back"), request);
        }
        let _ = codec.decode::<pb::StreamInputRequest>(input);
        let _ = codec.decode::<pb::StartResponse>(input);
        let _ = pb::parse_send_signal(codec, input);
    }
});
