//! Any agent, whatever it writes, gives a log and streams that keep the rules.

use proptest::prelude::*;

use super::strategies::{lines, log_of, started, terminal};
use super::{
    AgentLine, EnvelopeChecker, EnvelopeLine, EnvelopeProjector, Event, Ledger, RunEvent, to_raw,
};

fn project(log: &[RunEvent]) -> Vec<Option<EnvelopeLine>> {
    let mut projector = EnvelopeProjector::new();
    log.iter().map(|entry| projector.project(entry)).collect()
}

proptest! {
    #[test]
    fn whatever_an_agent_writes_its_envelope_keeps_the_rules(
        started in started(), lines in lines(), terminal in terminal(),
    ) {
        let log = log_of(started, lines, terminal);
        let mut checker = EnvelopeChecker::new();
        for line in project(&log).into_iter().flatten() {
            let text = line.to_line();
            prop_assert_eq!(text.find('\n'), Some(text.len() - 1));
            let parsed = EnvelopeLine::parse(text.as_bytes());
            prop_assert_eq!(parsed.as_ref(), Ok(&line));
            prop_assert_eq!(checker.check(&line), Ok(()));
        }
        prop_assert_eq!(checker.finish(), Ok(()));
    }

    #[test]
    fn whatever_an_agent_writes_its_log_keeps_the_rules(
        started in started(), lines in lines(), terminal in terminal(),
    ) {
        let log = log_of(started, lines, terminal);
        for (entry, number) in log.iter().zip(1..) {
            prop_assert_eq!(entry.seq, number);
            prop_assert_eq!(entry.event.is_terminal(), number == log.len() as u64);
            prop_assert_eq!(matches!(entry.event, Event::Started { .. }), number == 1);
            let line = to_raw(entry);
            let parsed = RunEvent::parse_line(line.as_bytes());
            prop_assert_eq!(parsed.as_ref(), Ok(entry));
        }
        prop_assert!(log.is_sorted_by_key(|entry| entry.ts));
        prop_assert!(log.iter().all(|entry| entry.ts <= 2_000));
        prop_assert!(Ledger::replay(&log).unwrap().is_finished());
    }

    #[test]
    fn a_log_that_was_cut_anywhere_goes_on_as_if_it_had_not_been(
        started in started(), lines in lines(), terminal in terminal(), cut in any::<prop::sample::Index>(),
    ) {
        let whole = log_of(started, lines, terminal);
        let cut = cut.index(whole.len() + 1);
        let from_disk: Vec<RunEvent> = whole[..cut]
            .iter()
            .map(|entry| RunEvent::parse_line(to_raw(entry).as_bytes()).unwrap())
            .collect();

        let mut projector = EnvelopeProjector::new();
        for entry in &from_disk {
            projector.project(entry);
        }
        let resumed: Vec<_> = whole[cut..].iter().map(|entry| projector.project(entry)).collect();
        prop_assert_eq!(&resumed[..], &project(&whole)[cut..]);

        let mut ledger = Ledger::replay(&from_disk).unwrap();
        prop_assert_eq!(ledger.last_seq(), cut as u64);
        let mut log = from_disk;
        for entry in &whole[cut..] {
            let RunEvent { ts, line, event, .. } = entry.clone();
            match line {
                Some(n) => ledger.accept(AgentLine { n, ts, event }, ts, &mut log).unwrap(),
                None => ledger.append(event, ts, &mut log).unwrap(),
            }
        }
        prop_assert_eq!(log, whole);
    }
}
