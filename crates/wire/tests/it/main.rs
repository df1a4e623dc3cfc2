//! Hostile input must not make a decoder allocate more than its limit.
//!
//! A test binary of its own, because it counts every allocation there is.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use wire::{
    Codec, EnvelopeDecoder, EnvelopeError, process as pb,
    run::{AgentLine, BadLine, EnvelopeLine, LINE_LIMIT},
    sse,
};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator that counts is the only way to see a peak")]
// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes allocated at the worst moment of `work`, beyond those before it.
fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed).saturating_sub(before)
}

const LIMIT: usize = 64 << 10;

// One test: the counters are the whole process's.
#[test]
fn hostile_lengths_and_bombs_stay_within_the_limit() {
    let claims_four_gib = b"\0\xff\xff\xff\xff";
    let peak = peak_of(|| {
        let mut decoder = EnvelopeDecoder::new(LIMIT);
        decoder.push(claims_four_gib);
        assert_eq!(decoder.pop(), Err(EnvelopeError::TooLarge { limit: LIMIT }));
    });
    assert!(peak < 1024, "a length alone made us allocate {peak} bytes");

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 64 << 20]).unwrap();
    let packed = gzip.finish().unwrap();
    assert!(packed.len() < LIMIT);
    let mut bomb = vec![1];
    bomb.extend((packed.len() as u32).to_be_bytes());
    bomb.extend(&packed);
    let peak = peak_of(|| {
        let mut decoder = EnvelopeDecoder::new(LIMIT);
        decoder.push(&bomb);
        assert_eq!(decoder.pop(), Err(EnvelopeError::TooLarge { limit: LIMIT }));
    });
    // The input, twice the limit while the output grows, and the unpacker's window.
    assert!(peak < 5 * LIMIT + (64 << 10), "a bomb made us allocate {peak} bytes");

    // A field that claims two gigabytes in a message of nine bytes.
    let claims_two_gib = b"\x0a\xff\xff\xff\xff\x07abc";
    let peak = peak_of(|| {
        assert!(Codec::Proto.decode::<pb::StartRequest>(claims_two_gib).is_err());
    });
    assert!(peak < 4096, "a field's length made us allocate {peak} bytes");

    let deep = "[".repeat(LIMIT);
    let peak = peak_of(|| {
        assert!(Codec::Json.decode::<pb::StartRequest>(deep.as_bytes()).is_err());
    });
    assert!(peak < LIMIT, "nesting made us allocate {peak} bytes");

    // Lists of nothing much take the most memory for their bytes.
    for (value, count) in [("0", LINE_LIMIT / 2 - 100), ("[]", LINE_LIMIT / 3 - 100)] {
        let line = custom(value, count);
        assert!(line.len() < LINE_LIMIT);
        let peak = peak_of(|| {
            let refused = AgentLine::parse_line(line.as_bytes());
            assert!(matches!(refused, Err(BadLine::TooManyValues { .. })));
            let refused = EnvelopeLine::parse(line.as_bytes());
            assert!(matches!(refused, Err(BadLine::TooManyValues { .. })));
        });
        assert!(peak < 4096, "a refused line made us allocate {peak} bytes");
    }
    let line = custom("0", 500_000);
    let peak = peak_of(|| assert!(AgentLine::parse_line(line.as_bytes()).is_ok()));
    assert!(peak < 64 << 20, "a line of small values made us allocate {peak} bytes");

    let piece = [b'x'; 1000];
    let peak = peak_of(|| {
        let mut decoder = sse::Decoder::new(LIMIT);
        for _ in 0..1000 {
            decoder.push(&piece);
            let _ = decoder.pop();
        }
    });
    assert!(peak < 4 * LIMIT, "a line without end made us allocate {peak} bytes");
}

/// An agent's line with a list of `count` times the same value.
fn custom(value: &str, count: usize) -> String {
    let values = vec![value; count].join(",");
    format!(r#"{{"n":1,"ts":1,"type":"custom","name":"c","value":[{values}]}}"#)
}
