//! What every store promises about streams of events.

use store::{Store, StreamEvent};

use crate::conversations::{chat, conversation};
use crate::executions::{ended, execution};
use crate::time::second;
use crate::turns::{answered, begun, turn};

contract!([
    events_are_read_after_any_of_them,
    a_stream_takes_any_number_of_events_all_or_none,
    the_last_event_says_how_far_the_runner_was_read,
    streams_of_what_ended_long_ago_are_pruned,
]);

async fn events_are_read_after_any_of_them(store: Store) {
    let mut events: Vec<StreamEvent> = (1..=5).map(|seq| event(seq, "text")).collect();
    events[2].upstream = Some(7);
    store.append_events("turn_a", &events[..2]).await.unwrap();
    store.append_events("turn_a", &[]).await.unwrap();
    store.append_events("turn_a", &events[2..]).await.unwrap();
    store.append_events("turn_b", &[event(1, "other")]).await.unwrap();
    assert_eq!(store.events_after("turn_a", 0, 9).await.unwrap(), events);
    assert_eq!(store.events_after("turn_a", 3, 1).await.unwrap(), events[3..4]);
    assert!(store.events_after("turn_a", 5, 9).await.unwrap().is_empty());
    assert!(store.events_after("turn_c", 0, 9).await.unwrap().is_empty());
}

async fn a_stream_takes_any_number_of_events_all_or_none(store: Store) {
    let mut events: Vec<StreamEvent> = (1..=1201).map(|seq| event(seq, "text")).collect();
    events[1200].seq = 1;
    assert!(store.append_events("turn_a", &events).await.is_err());
    assert!(store.events_after("turn_a", 0, 9).await.unwrap().is_empty());
    assert!(store.append_events("turn_a", &[event(1, "a"), event(1, "b")]).await.is_err());
    assert_eq!(store.last_event("turn_a").await.unwrap(), None);
    events[1200].seq = 1201;
    store.append_events("turn_a", &events).await.unwrap();
    assert_eq!(store.events_after("turn_a", 0, 9999).await.unwrap(), events);
}

async fn the_last_event_says_how_far_the_runner_was_read(store: Store) {
    assert_eq!(store.last_event("turn_a").await.unwrap(), None);
    store.append_events("turn_a", &[event(1, "turn")]).await.unwrap();
    assert_eq!(store.last_event("turn_a").await.unwrap(), Some((1, None)));
    let read = StreamEvent { upstream: Some(9), ..event(2, "step") };
    store.append_events("turn_a", &[read, event(3, "files")]).await.unwrap();
    assert_eq!(store.last_event("turn_a").await.unwrap(), Some((3, Some(9))));
}

async fn streams_of_what_ended_long_ago_are_pruned(store: Store) {
    store.create_conversation(&conversation(1, 0)).await.unwrap();
    for number in [1, 20] {
        // Ends a second after its number, with one event.
        answered(&store, &chat(1), number).await;
    }
    begun(&store, &chat(1), 30).await;
    store.append_events(turn(30).as_str(), &[event(1, "turn")]).await.unwrap();
    let row = execution(1, 0);
    store.insert_execution(&row).await.unwrap();
    store.finish_execution(&row.id, &ended(5), &[event(1, "line")]).await.unwrap();

    assert_eq!(store.prune_streams(second(10)).await.unwrap(), 2);
    assert_eq!(store.prune_streams(second(10)).await.unwrap(), 0);
    assert_eq!(store.last_event(turn(1).as_str()).await.unwrap(), None);
    assert_eq!(store.last_event(row.id.as_str()).await.unwrap(), None);
    for kept in [20, 30] {
        assert!(store.last_event(turn(kept).as_str()).await.unwrap().is_some(), "{kept}");
    }
}

pub(crate) fn event(seq: u64, kind: &str) -> StreamEvent {
    let data = format!("{{\"n\":{seq},\"text\":\"'; \u{1F41D}\"}}");
    StreamEvent { seq, kind: kind.to_owned(), data, upstream: None }
}
