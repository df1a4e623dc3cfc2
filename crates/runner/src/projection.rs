//! Which projection of a log a client asked for, and the log in it.

mod agui;

use http::{HeaderMap, HeaderValue};
use wire::{
    agui::{NDJSON_TYPE, PROTO_TYPE, Position, SSE_TYPE},
    run::{EnvelopeProjector, RunEvent},
};

use crate::accept;

use agui::AguiWriter;

/// The media type of the log as it is.
const RAW: &str = "application/vnd.mayfly.run+ndjson";
/// The media type of the envelope.
const ENVELOPE: &str = "application/x-ndjson";

/// How a log is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Projection {
    /// Seed 000's lines.
    Envelope,
    /// The log as it is.
    Raw,
    /// Seed 001's events.
    Agui(Encoding),
}

/// How events of AG-UI are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Server-sent events.
    Sse,
    /// One object a line, under a name of our own or the one that clients of
    /// `/agui` ask for.
    Ndjson { content_type: &'static str },
    /// Protocol buffers, each behind its length.
    Binary,
}

impl Projection {
    /// What the `Accept` header asks for. Types that mean nothing here are passed
    /// over: the envelope is what callers expect who do not know the header.
    pub(crate) fn asked(headers: &HeaderMap) -> Projection {
        let known = accept::types(headers).iter().find_map(|name| match name.as_str() {
            RAW => Some(Projection::Raw),
            ENVELOPE => Some(Projection::Envelope),
            SSE_TYPE => Some(Projection::Agui(Encoding::Sse)),
            NDJSON_TYPE => Some(Projection::Agui(Encoding::Ndjson { content_type: NDJSON_TYPE })),
            PROTO_TYPE => Some(Projection::Agui(Encoding::Binary)),
            _ => None,
        });
        known.unwrap_or(Projection::Envelope)
    }

    /// What it asks for where everything is AG-UI: plain NDJSON is too, and
    /// server-sent events are what clients expect.
    pub(crate) fn asked_of_agui(headers: &HeaderMap) -> Projection {
        let known = accept::types(headers).iter().find_map(|name| match name.as_str() {
            SSE_TYPE => Some(Encoding::Sse),
            ENVELOPE => Some(Encoding::Ndjson { content_type: ENVELOPE }),
            NDJSON_TYPE => Some(Encoding::Ndjson { content_type: NDJSON_TYPE }),
            PROTO_TYPE => Some(Encoding::Binary),
            _ => None,
        });
        Projection::Agui(known.unwrap_or(Encoding::Sse))
    }

    /// The `Content-Type` of the answer.
    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Projection::Envelope => ENVELOPE,
            Projection::Raw => RAW,
            Projection::Agui(Encoding::Sse) => SSE_TYPE,
            Projection::Agui(Encoding::Ndjson { content_type }) => content_type,
            Projection::Agui(Encoding::Binary) => PROTO_TYPE,
        })
    }

    /// What keeps a quiet stream from being taken for a dead one, where the format
    /// has something that readers pass over.
    pub(crate) fn keep_alive(self) -> Option<&'static str> {
        match self {
            Projection::Agui(Encoding::Sse) => Some(": keep-alive\n\n"),
            Projection::Envelope
            | Projection::Raw
            | Projection::Agui(Encoding::Ndjson { .. } | Encoding::Binary) => None,
        }
    }
}

/// Turns lines of the log into what a client reads.
pub(crate) enum Projector {
    Envelope(EnvelopeProjector),
    Raw,
    Agui(AguiWriter),
}

impl Projector {
    pub(crate) fn new(projection: Projection) -> Projector {
        match projection {
            Projection::Envelope => Projector::Envelope(EnvelopeProjector::new()),
            Projection::Raw => Projector::Raw,
            Projection::Agui(encoding) => Projector::Agui(AguiWriter::new(encoding)),
        }
    }

    /// Adds what entry `seq`, a line of the log with its line break, is for a
    /// client that has read up to `after`.
    pub(crate) fn project(&mut self, seq: u64, line: &[u8], after: Position, out: &mut Vec<u8>) {
        // An entry that was read in part in another format is sent as a whole.
        let sent = after.seen(seq, usize::MAX) < usize::MAX;
        let parsed = match self {
            Projector::Raw => {
                if sent {
                    out.extend_from_slice(line);
                }
                return;
            }
            Projector::Envelope(_) | Projector::Agui(_) => RunEvent::parse_line(line),
        };
        // Ours, and of a version that is not: readers pass it over.
        let Ok(entry) = parsed else { return };
        match self {
            Projector::Raw => {}
            Projector::Envelope(projector) => {
                // One that is not sent still names the step of one that is.
                let line = projector.project(&entry);
                if let Some(line) = line.filter(|_| sent) {
                    out.extend_from_slice(line.to_line().as_bytes());
                }
            }
            Projector::Agui(writer) => writer.write(&entry, after, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::ACCEPT};

    use super::{ENVELOPE, Encoding, NDJSON_TYPE, Projection};

    #[track_caller]
    fn check(accept: &'static str, stream: Projection, agui: Encoding) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        assert_eq!(Projection::asked(&headers), stream, "{accept}");
        assert_eq!(Projection::asked_of_agui(&headers), Projection::Agui(agui), "{accept}");
    }

    #[test]
    fn the_header_decides_and_each_route_has_what_it_means_by_nothing() {
        let sse = Encoding::Sse;
        assert_eq!(Projection::asked(&HeaderMap::new()), Projection::Envelope);
        check("*/*", Projection::Envelope, sse);
        check("application/json", Projection::Envelope, sse);
        let plain = Encoding::Ndjson { content_type: ENVELOPE };
        check("application/x-ndjson", Projection::Envelope, plain);
        check("application/vnd.mayfly.run+ndjson", Projection::Raw, sse);
        check("Application/Vnd.Mayfly.Run+NDJSON;q=1, */*", Projection::Raw, sse);
        check("text/event-stream", Projection::Agui(sse), sse);
        check("text/event-stream, */*;q=0.1", Projection::Agui(sse), sse);
        let binary = Encoding::Binary;
        check("application/vnd.ag-ui.event+proto", Projection::Agui(binary), binary);
        let both = "text/event-stream;q=0.5, application/vnd.ag-ui.event+proto";
        check(both, Projection::Agui(binary), binary);
        let named = Encoding::Ndjson { content_type: NDJSON_TYPE };
        check("application/vnd.ag-ui.event+ndjson", Projection::Agui(named), named);
    }
}
