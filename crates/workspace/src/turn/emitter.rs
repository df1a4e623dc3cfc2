//! Events of a turn as server-sent events.

use store::StreamEvent;

use super::event::LOG;

/// A comment, which readers pass over: it keeps connections open, and finds out
/// about those that are not.
pub(super) const HEARTBEAT: &[u8] = b": still here\n\n";

/// Adds an event as a browser reads it. Its id is where a reader that comes back
/// goes on. Logs are for the trace.
pub(super) fn emit(event: &StreamEvent, out: &mut Vec<u8>) {
    if event.kind != LOG {
        wire::sse::encode(Some(&event.kind), Some(event.seq), &event.data, out);
    }
}

#[cfg(test)]
mod tests {
    use store::StreamEvent;

    use super::{HEARTBEAT, emit};

    fn event(seq: u64, kind: &str, data: &str) -> StreamEvent {
        StreamEvent { seq, kind: kind.to_owned(), data: data.to_owned(), upstream: None }
    }

    #[test]
    fn events_have_golden_bytes_and_logs_have_none() {
        let mut out = Vec::new();
        emit(&event(1, "text", r#"{"delta":"a"}"#), &mut out);
        emit(&event(2, "log", r#"{"message":"secret"}"#), &mut out);
        emit(&event(3, "done", "{}"), &mut out);
        let expected = "event: text\nid: 1\ndata: {\"delta\":\"a\"}\n\n\
                        event: done\nid: 3\ndata: {}\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_heartbeat_is_no_event() {
        let mut decoder = wire::sse::Decoder::new(1 << 10);
        decoder.push(HEARTBEAT);
        assert_eq!(decoder.pop(), Ok(None));
    }
}
