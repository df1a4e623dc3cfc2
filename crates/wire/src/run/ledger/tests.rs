//! Each rule of the ledger, one by one. All of them at once are in `run::tests`.

use serde_json::Value;

use super::{BadLog, Ledger, Refusal};
use crate::run::{
    AgentLine, ErrorCode, Event, Level, Outcome, RunEvent, RunId, STEPS_LIMIT, StepId, Terminal,
};

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

fn log() -> Event {
    Event::Log { level: Level::Info, message: "m".into() }
}

fn begin(number: u64) -> Event {
    let id = StepId::from_number(number);
    Event::StepStarted { id, name: "n".into(), args: Value::Null }
}

fn end(number: u64) -> Event {
    let outcome = Outcome::Succeeded { result: Value::Null, truncated: false };
    Event::StepEnded { id: StepId::from_number(number), outcome, duration_ms: 1 }
}

fn interrupted(number: u64, duration_ms: u64) -> Event {
    let outcome = Outcome::Failed { error: "interrupted".into(), result: None };
    Event::StepEnded { id: StepId::from_number(number), outcome, duration_ms }
}

fn result() -> Event {
    Event::Result { message: "m".into() }
}

/// A ledger after its beginning, at time 100.
fn open() -> (Ledger, Vec<RunEvent>) {
    let mut ledger = Ledger::new();
    let mut log = Vec::new();
    ledger.append(started(), 100, &mut log).unwrap();
    (ledger, log)
}

/// An agent writes `events`, of which the last one is refused.
#[track_caller]
fn check(events: &[Event], expected: Refusal) {
    let (mut ledger, mut log) = open();
    let (last, before) = events.split_last().unwrap();
    for event in before {
        let line = AgentLine { n: 1, ts: 100, event: event.clone() };
        ledger.accept(line, 100, &mut log).unwrap();
    }
    let written = log.len();
    let line = AgentLine { n: 1, ts: 100, event: last.clone() };
    assert_eq!(ledger.accept(line, 100, &mut log), Err(expected));
    assert_eq!(log.len(), written, "what is refused leaves no trace");
    assert_eq!(ledger.last_seq(), written as u64);
}

#[test]
fn only_the_runner_says_that_a_run_started_and_only_once() {
    check(&[started()], Refusal::NotTheRunner);
    let (mut ledger, mut log) = open();
    assert_eq!(ledger.append(started(), 100, &mut log), Err(Refusal::StartedTwice));
    let mut ledger = Ledger::new();
    assert_eq!(ledger.append(super::tests::log(), 100, &mut log), Err(Refusal::NotStarted));
    assert_eq!(ledger.append(begin(1), 100, &mut log), Err(Refusal::NotStarted));
}

#[test]
fn a_step_starts_once_and_ends_once() {
    let id = StepId::from_number(1);
    check(&[begin(1), begin(1)], Refusal::StepStartedTwice(id.clone()));
    check(&[begin(1), end(1), begin(1)], Refusal::StepStartedTwice(id.clone()));
    check(&[end(1)], Refusal::StepNeverStarted(id.clone()));
    check(&[begin(1), end(1), end(1)], Refusal::StepEndedTwice(id));
}

#[test]
fn nothing_comes_after_the_end() {
    for event in [log(), begin(1), result()] {
        check(&[result(), event], Refusal::Finished);
    }
    let (mut ledger, mut log) = open();
    let terminal =
        || Terminal::Error { code: ErrorCode::Cancelled, message: "the caller hung up".into() };
    assert!(!ledger.is_finished());
    ledger.finish(terminal(), 100, &mut log).unwrap();
    assert!(ledger.is_finished());
    assert_eq!(ledger.finish(terminal(), 100, &mut log), Err(Refusal::Finished));
}

#[test]
fn steps_that_run_at_the_end_are_interrupted_in_the_order_of_their_start() {
    let (mut ledger, mut log) = open();
    for (event, now) in [(begin(2), 110), (begin(3), 120), (begin(1), 130), (end(3), 140)] {
        ledger.append(event, now, &mut log).unwrap();
    }
    log.clear();
    ledger.accept(AgentLine { n: 1, ts: 150, event: result() }, 200, &mut log).unwrap();
    // The agent's line is where its result came from, not the interruptions.
    let expected =
        [(6, None, interrupted(2, 40)), (7, None, interrupted(1, 20)), (8, Some(1), result())]
            .map(|(seq, line, event)| RunEvent { seq, ts: 150, line, event });
    assert_eq!(log, expected);
}

#[test]
fn a_run_that_never_started_still_has_its_end() {
    let mut ledger = Ledger::new();
    let mut log = Vec::new();
    let terminal = Terminal::Error { code: ErrorCode::Internal, message: "m".into() };
    ledger.finish(terminal.clone(), 5, &mut log).unwrap();
    assert_eq!(log, [RunEvent { seq: 1, ts: 5, line: None, event: terminal.into() }]);
    assert!(Ledger::replay(&log).unwrap().is_finished());
}

#[test]
fn the_time_of_an_agent_is_neither_past_nor_future() {
    let (mut ledger, mut entries) = open();
    for (ts, now) in [(0, 110), (105, 110), (u64::MAX, 120), (130, 90)] {
        ledger.accept(AgentLine { n: 1, ts, event: log() }, now, &mut entries).unwrap();
    }
    let times: Vec<u64> = entries.iter().map(|entry| entry.ts).collect();
    assert_eq!(times, [100, 100, 105, 120, 120]);
}

#[test]
fn a_run_has_so_many_steps_and_no_more() {
    let (mut ledger, mut log) = open();
    for number in 0..STEPS_LIMIT as u64 {
        ledger.append(begin(number), 100, &mut log).unwrap();
        ledger.append(end(number), 100, &mut log).unwrap();
        log.clear();
    }
    let refusal = Refusal::TooManySteps { limit: STEPS_LIMIT };
    assert_eq!(ledger.append(begin(u64::MAX), 100, &mut log), Err(refusal));
    assert!(ledger.append(result(), 100, &mut log).is_ok());
}

#[test]
fn a_log_that_breaks_the_rules_is_not_taken_up() {
    let entry = |seq, event| RunEvent { seq, ts: 1, line: None, event };
    #[track_caller]
    fn check(log: &[RunEvent], expected: BadLog) {
        assert_eq!(Ledger::replay(log).map(|_| ()), Err(expected));
    }
    check(&[entry(2, started())], BadLog::Number { expected: 1, found: 2 });
    check(&[entry(1, started()), entry(1, log())], BadLog::Number { expected: 2, found: 1 });
    let source = Refusal::StepNeverStarted(StepId::from_number(1));
    check(&[entry(1, started()), entry(2, end(1))], BadLog::Rule { seq: 2, source });
    check(
        &[entry(1, started()), entry(2, result()), entry(3, log())],
        BadLog::Rule { seq: 3, source: Refusal::Finished },
    );
    check(&[entry(1, started()), entry(2, begin(1)), entry(3, result())], BadLog::StepsRunning);
}
