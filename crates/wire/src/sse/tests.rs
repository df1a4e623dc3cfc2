//! The reader against the standard's examples, any split, and any bytes.

use proptest::prelude::*;

use super::{Decoder, Event, TooLong, encode};

fn decode(stream: &[u8], piece: usize, limit: usize) -> (Vec<Event>, Result<(), TooLong>) {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    for piece in stream.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.pop() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
    }
    (events, Ok(()))
}

#[track_caller]
fn check(stream: &str, expected: &[(Option<&str>, Option<&str>, &str)]) {
    let expected: Vec<Event> = expected
        .iter()
        .map(|(event, id, data)| Event {
            event: event.map(str::to_owned),
            id: id.map(str::to_owned),
            data: (*data).to_owned(),
        })
        .collect();
    for piece in [1, 2, 3, 1000] {
        assert_eq!(
            decode(stream.as_bytes(), piece, 1000),
            (expected.clone(), Ok(())),
            "{stream:?}"
        );
    }
}

#[test]
fn events_have_golden_bytes() {
    #[track_caller]
    fn check(event: Option<&str>, id: Option<u64>, data: &str, expected: &str) {
        let mut out = Vec::new();
        encode(event, id, data, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    check(None, None, "x", "data: x\n\n");
    check(Some("step"), Some(7), "{\"a\":1}", "event: step\nid: 7\ndata: {\"a\":1}\n\n");
    check(None, None, "", "data: \n\n");
    check(None, None, " a\nb\r\nc\rd\n", "data:  a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
    check(Some("a\ndata: forged"), None, "x", "event: a\ndata: x\n\n");
}

#[test]
fn the_examples_of_the_standard_are_read() {
    check("data: YHOO\ndata: +2\ndata: 10\n\n", &[(None, None, "YHOO\n+2\n10")]);
    check(
        ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        &[
            (None, Some("1"), "first event"),
            (None, Some(""), "second event"),
            (None, Some(""), " third event"),
        ],
    );
    check("data\n\ndata\ndata\n\ndata:", &[(None, None, ""), (None, None, "\n")]);
    check("data:test\n\ndata: test\n\n", &[(None, None, "test"), (None, None, "test")]);
}

#[test]
fn every_line_break_counts_once() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = format!("event: a{end}data: 1{end}data: 2{end}{end}data: 3{end}{end}");
        check(&stream, &[(Some("a"), None, "1\n2"), (None, None, "3")]);
    }
    check("data: 1\r\n\rdata: 2\n\r", &[(None, None, "1"), (None, None, "2")]);
}

#[test]
fn what_is_no_event_is_passed_over() {
    check("\u{feff}data: 1\n\n", &[(None, None, "1")]);
    check("\u{feff}\u{feff}data: 1\n\n", &[]);
    check("retry: 5\nfoo: bar\n:keep\n\nevent: gone\n\ndata: 1\n\n", &[(None, None, "1")]);
    check("id: 3\n\ndata: 1\n\n", &[(None, Some("3"), "1")]);
    check("id: a\0b\nevent:\ndata: 1\n\n", &[(None, None, "1")]);
    check("data: cut off\n", &[]);
}

#[test]
fn an_event_over_the_limit_is_refused_and_nothing_follows() {
    let too_long = Err(TooLong { limit: 20 });
    for stream in [
        "data: ok\n\ndata: 123456789012345\n\n",
        "data: ok\n\n:2345678901234567890123",
        "data: ok\n\ndata: 1234567890\ndata: 1234567890\n\ndata: x\n\n",
    ] {
        for piece in [1, 7, 1000] {
            let (events, result) = decode(stream.as_bytes(), piece, 20);
            assert_eq!(events.len(), 1, "{stream:?}");
            assert_eq!(result, too_long, "{stream:?}");
        }
    }
    let mut decoder = Decoder::new(2);
    decoder.push(b"12345");
    assert!(decoder.pop().is_err());
    decoder.push(b"\n\ndata:\n\n");
    assert!(decoder.pop().is_err());
}

#[test]
fn comments_without_end_are_not_an_event() {
    let stream = ":\n".repeat(1000) + "data: 1\n\n";
    assert_eq!(decode(stream.as_bytes(), 7, 20).0.len(), 1);
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        written in prop::collection::vec(
            (prop::option::of("[a-z_]{1,8}"), prop::option::of(any::<u64>()), "[ -~ä\n]{0,40}"),
            0..6,
        ),
        piece in 1usize..20,
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        let mut last = None;
        for (event, id, data) in written {
            encode(event.as_deref(), id, &data, &mut stream);
            last = id.map(|id| id.to_string()).or(last);
            expected.push(Event { event, id: last.clone(), data });
        }
        prop_assert_eq!(decode(&stream, piece, 1000), (expected, Ok(())));
    }

    #[test]
    fn any_bytes_in_any_pieces_give_the_same_events(
        stream in prop::collection::vec(
            prop_oneof![
                Just(b"data".to_vec()), Just(b"id".to_vec()), Just(b"event".to_vec()),
                Just(b":".to_vec()), Just(b" ".to_vec()), Just(b"\r".to_vec()),
                Just(b"\n".to_vec()), Just(b"\n\n".to_vec()), Just(b"\xef\xbb\xbf".to_vec()),
                prop::collection::vec(any::<u8>(), 0..4),
            ],
            0..60,
        ),
        piece in 1usize..10,
        limit in 1usize..60,
    ) {
        let stream = stream.concat();
        let whole = decode(&stream, stream.len().max(1), limit);
        prop_assert_eq!(decode(&stream, piece, limit), whole);
    }
}
