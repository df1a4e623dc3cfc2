//! Arbitrary bytes as a front end's request, as a position, and as a log whose
//! stream has to keep the rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::agui::{
    AguiChecker, AguiProjector, Position, RunAgentInput, encode_ndjson, encode_proto, encode_sse,
};
use wire::run::{AgentLine, Event, Ledger, RunId, Terminal};

fuzz_target!(|input: &[u8]| {
    let _ = RunAgentInput::parse(input);
    if let Some(position) = std::str::from_utf8(input).ok().and_then(|text| text.parse().ok()) {
        let position: Position = position;
        assert_eq!(position.to_string().parse(), Ok(position));
    }
    let mut ledger = Ledger::new();
    let mut log = Vec::new();
    ledger.append(started(), 0, &mut log).expect("a run starts");
    for line in input.split(|byte| *byte == b'\n') {
        if let Ok(line) = AgentLine::parse_line(line) {
            let _ = ledger.accept(line, 1, &mut log);
        }
    }
    if !ledger.is_finished() {
        let terminal = Terminal::Result { message: String::new() };
        ledger.finish(terminal, 2, &mut log).expect("a run ends");
    }
    let (mut projector, mut checker) = (AguiProjector::new(), AguiChecker::new());
    let (mut events, mut out) = (Vec::new(), Vec::new());
    for entry in &log {
        projector.project(entry, &mut events);
        for event in events.drain(..) {
            checker.check(&event).expect("the stream keeps the rules");
            encode_sse(&event, Some(Position::after(entry.seq)), &mut out);
            encode_ndjson(&event, &mut out);
            encode_proto(&event, &mut out);
            out.clear();
        }
    }
    checker.end().expect("the stream ends");
});

fn started() -> Event {
    Event::Started {
        run_id: RunId::from_random([0; 15]),
        sandbox_id: None,
        harness: "builtin".into(),
        provider: None,
        model: None,
        thread_id: None,
        client_run_id: None,
    }
}
