//! Cursors, numbers, eviction, and who has to wait for whom.

use std::rc::Rc;

use bytes::Bytes;
use tokio::time::Instant;
use wire::{Code, Stream};

use super::{Congestion, KEPT, LAG, PATIENCE, SCARCE, Store, TOGETHER};
use crate::{
    exit::Exit,
    output::{Begin, Next, ReaderId, Unread},
};

fn store(texts: &[&'static str]) -> Store {
    let mut store = Store::new(Rc::default(), Unread::Dropped);
    for text in texts {
        store.publish(Stream::Stdout, Bytes::from_static(text.as_bytes()));
    }
    store
}

fn all(store: &mut Store, reader: ReaderId) -> String {
    let mut seen = String::new();
    while let Next::Data(_, bytes) = store.take(reader) {
        seen.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    seen
}

fn filler(store: &mut Store, bytes: u64) {
    store.publish(Stream::Stdout, vec![b'x'; bytes as usize].into());
}

#[track_caller]
fn check_replay(begin: Begin, first_event: u64, expected: &str) {
    let mut store = store(&["1\n2\n3\n", "4\n", "5\n6\n"]);
    let (reader, first) = store.attach(begin);
    assert_eq!(first, first_event, "{begin:?}");
    assert_eq!(all(&mut store, reader), expected, "{begin:?}");
    assert_eq!(store.readers[0].position, store.written);
    assert_eq!(store.readers[0].last_event, 6);
}

#[test]
fn a_reader_begins_now_or_behind_any_event() {
    check_replay(Begin::Now, 7, "");
    check_replay(Begin::After(0), 1, "1\n2\n3\n4\n5\n6\n");
    check_replay(Begin::After(1), 2, "2\n3\n4\n5\n6\n");
    check_replay(Begin::After(2), 3, "3\n4\n5\n6\n");
    check_replay(Begin::After(3), 4, "4\n5\n6\n");
    check_replay(Begin::After(4), 5, "5\n6\n");
    check_replay(Begin::After(5), 6, "6\n");
    check_replay(Begin::After(6), 7, "");
    check_replay(Begin::After(u64::MAX), 7, "");
}

#[test]
fn old_output_goes_and_the_first_number_shows_the_gap() {
    let mut store = store(&["1\n"]);
    filler(&mut store, KEPT as u64);
    store.publish(Stream::Stderr, "end\n".into());
    assert!(store.kept <= KEPT);
    let (reader, first) = store.attach(Begin::After(0));
    assert_eq!(first, 1 + 1 + 32);
    assert_eq!(all(&mut store, reader), "end\n");
}

#[test]
fn what_a_reader_has_yet_to_get_is_kept() {
    let mut store = store(&[]);
    let (reader, _) = store.attach(Begin::Now);
    filler(&mut store, KEPT as u64);
    filler(&mut store, KEPT as u64);
    assert_eq!(all(&mut store, reader).len(), 2 * KEPT);
    store.publish(Stream::Stdout, "x".into());
    assert!(store.kept <= KEPT);
}

#[test]
fn many_small_pieces_count_for_more_than_their_bytes() {
    let mut store = store(&[]);
    for _ in 0..KEPT / 8 {
        store.publish(Stream::Stdout, Bytes::from_static(b"x"));
    }
    assert!(store.chunks.len() * size_of::<super::Chunk>() <= KEPT);
}

#[test]
fn the_end_comes_behind_the_last_output() {
    let mut store = store(&[]);
    let (reader, _) = store.attach(Begin::Now);
    assert_eq!(store.take(reader), Next::Nothing);
    store.publish(Stream::Pty, "bye".into());
    store.end = Some(Rc::new(Exit::Code(0).event()));
    assert_eq!(store.take(reader), Next::Data(Stream::Pty, "bye".into()));
    assert!(matches!(store.take(reader), Next::Ended(event) if event.exited));
}

#[test]
fn a_lone_reader_is_waited_for_without_end() {
    let mut store = store(&[]);
    let (reader, _) = store.attach(Begin::Now);
    let now = Instant::now();
    filler(&mut store, LAG);
    assert_eq!(store.congestion(now), Congestion::Clear);
    filler(&mut store, 1);
    assert_eq!(store.congestion(now), Congestion::All);
    assert_eq!(store.congestion(now + 100 * PATIENCE), Congestion::All);
    store.take(reader);
    assert_eq!(store.congestion(now), Congestion::Clear);
}

#[test]
fn a_reader_without_progress_is_cut_off_when_others_could_go_on() {
    let mut store = store(&[]);
    let (slow, _) = store.attach(Begin::Now);
    let (quick, _) = store.attach(Begin::Now);
    filler(&mut store, LAG + 1);
    filler(&mut store, LAG + 1);
    all(&mut store, quick);
    let now = Instant::now();
    assert_eq!(store.congestion(now), Congestion::SomeUntil(now + PATIENCE));
    // Progress earns it as much time again.
    store.take(slow);
    let later = now + PATIENCE;
    assert_eq!(store.congestion(later), Congestion::SomeUntil(later + PATIENCE));
    assert_eq!(store.congestion(later + PATIENCE), Congestion::Clear);
    let Next::Cut(error) = store.take(slow) else { panic!("not cut off") };
    assert_eq!(error.code, Code::ResourceExhausted);
    let expected = format!("reader was too slow: {} bytes behind", LAG + 1);
    assert!(error.message.starts_with(&expected), "{}", error.message);
}

#[test]
fn many_busy_commands_together_keep_less_each() {
    let budget = Rc::default();
    let mut stores: Vec<Store> =
        (0..100).map(|_| Store::new(Rc::clone(&budget), Unread::Dropped)).collect();
    for store in &mut stores {
        for _ in 0..16 {
            filler(store, 64 << 10);
        }
    }
    assert!(stores[0].kept > KEPT / 2, "the first had room");
    assert!(stores[99].kept < 4 * SCARCE, "the last had not");
    assert!(budget.0.get() < TOGETHER + 100 * 4 * SCARCE);
    drop(stores);
    assert_eq!(budget.0.get(), 0);
}

#[test]
fn held_output_waits_for_a_reader_and_loses_nothing() {
    let mut store = Store::new(Rc::default(), Unread::Held);
    let now = Instant::now();
    assert_eq!(store.congestion(now), Congestion::Clear);
    filler(&mut store, LAG + 1);
    assert_eq!(store.congestion(now), Congestion::All, "nobody reads");
    let (reader, first_event) = store.attach(Begin::After(0));
    assert_eq!(first_event, 1);
    assert_eq!(all(&mut store, reader).len() as u64, LAG + 1);
    store.readers.clear();
    assert_eq!(store.congestion(now), Congestion::Clear, "all of it was read");
    for _ in 0..2 * KEPT as u64 / LAG {
        filler(&mut store, LAG);
    }
    let (reader, _) = store.attach(Begin::After(1));
    assert_eq!(all(&mut store, reader).len(), 2 * KEPT, "what nobody has had stays");
}
