//! Arbitrary bytes as lines of a run: the envelope's, the log's and an agent's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::run::{AgentLine, EnvelopeLine, RunEvent, to_raw};

fuzz_target!(|input: &[u8]| {
    if let Ok(line) = EnvelopeLine::parse(input) {
        assert_eq!(EnvelopeLine::parse(line.to_line().as_bytes()), Ok(line));
    }
    if let Ok(entry) = RunEvent::parse_line(input) {
        let line = to_raw(&entry);
        let again = RunEvent::parse_line(line.as_bytes()).expect("what we wrote reads back");
        assert_eq!(to_raw(&again), line);
    }
    let _ = AgentLine::parse_line(input);
});
