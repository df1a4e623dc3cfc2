//! Any run at all, read at once and in pieces.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::project;
use crate::agui::{AguiChecker, AguiEvent, Position};
use crate::run::RunEvent;
use crate::run::strategies::{lines, log_of, started, terminal};

proptest! {
    #[test]
    fn whatever_an_agent_writes_its_stream_keeps_the_rules(
        started in started(), lines in lines(), terminal in terminal(),
    ) {
        let mut checker = AguiChecker::new();
        let (mut opened, mut parents, mut held) = (HashSet::new(), HashMap::new(), HashSet::new());
        for event in project(&log_of(started, lines, terminal)).concat() {
            prop_assert_eq!(checker.check(&event), Ok(()));
            let json = serde_json::to_value(&event).unwrap();
            let parsed: AguiEvent = serde_json::from_value(json.clone()).unwrap();
            prop_assert_eq!(&parsed, &event);
            let field = |name: &str| json[name].as_str().unwrap().to_owned();
            match field("type").as_str() {
                "TEXT_MESSAGE_START" | "REASONING_START" | "TOOL_CALL_RESULT" => {
                    let id = field("messageId");
                    let goes_on = held.contains(&id);
                    prop_assert!(opened.insert(id.clone()) || goes_on, "{} is used twice", id);
                }
                "TOOL_CALL_START" => {
                    parents.insert(field("toolCallId"), field("parentMessageId"));
                }
                // The message of a call that waits for the caller goes on.
                "CUSTOM" if json["name"] == "tool-input-available" => {
                    if let Some(call) = json["value"]["toolCallId"].as_str() {
                        held.extend(parents.get(call).cloned());
                    }
                }
                _ => {}
            }
        }
        prop_assert_eq!(checker.end(), Ok(()));
    }

    #[test]
    fn a_reader_that_comes_back_anywhere_reads_the_rest(
        started in started(), lines in lines(), terminal in terminal(),
        cut in any::<prop::sample::Index>(),
    ) {
        let log = log_of(started, lines, terminal);
        let whole: Vec<(String, AguiEvent)> = numbered(&log, Position::after(0));
        let ids: HashSet<&str> = whole.iter().map(|(id, _)| id.as_str()).collect();
        prop_assert_eq!(ids.len(), whole.len());
        let cut = cut.index(whole.len());
        let position: Position = whole[cut].0.parse().unwrap();
        prop_assert_eq!(&numbered(&log, position)[..], &whole[cut + 1..]);
    }
}

/// The events after a position, each with its id.
fn numbered(log: &[RunEvent], after: Position) -> Vec<(String, AguiEvent)> {
    let mut numbered = Vec::new();
    for (entry, events) in log.iter().zip(project(log)) {
        let count = events.len();
        for (index, event) in events.into_iter().enumerate().skip(after.seen(entry.seq, count)) {
            numbered.push((Position::within(entry.seq, index, count).to_string(), event));
        }
    }
    numbered
}
