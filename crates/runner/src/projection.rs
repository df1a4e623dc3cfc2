//! Which projection of a log a client asked for, and the log in it.

use http::{HeaderMap, HeaderValue, header::ACCEPT};
use http_kit::Fault;
use wire::{
    Code,
    run::{EnvelopeProjector, RunEvent},
};

/// The media type of the log as it is.
const RAW: &str = "application/vnd.mayfly.run+ndjson";
/// The media type of the envelope.
const ENVELOPE: &str = "application/x-ndjson";
/// Projections that a later version has.
const NOT_YET: [&str; 2] = ["text/event-stream", "application/vnd.ag-ui.event+proto"];

/// How a log is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Projection {
    /// Seed 000's lines.
    Envelope,
    /// The log as it is.
    Raw,
}

impl Projection {
    /// What the `Accept` header asks for. Types that mean nothing here are passed
    /// over: the envelope is what callers expect who do not know the header.
    pub(crate) fn asked(headers: &HeaderMap) -> Result<Projection, Fault> {
        let header = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges = header.flat_map(|value| value.split(','));
        let types: Vec<String> = ranges
            .filter_map(|range| range.split(';').next())
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        if let Some(known) = types.iter().find_map(|name| match name.as_str() {
            RAW => Some(Projection::Raw),
            ENVELOPE => Some(Projection::Envelope),
            _ => None,
        }) {
            return Ok(known);
        }
        let any = types.iter().any(|name| matches!(name.as_str(), "*/*" | "application/*"));
        match types.iter().find(|name| NOT_YET.contains(&name.as_str())) {
            Some(name) if !any => {
                let message = format!(
                    "`{name}` is not in this version of Mayfly; accept `{ENVELOPE}` or `{RAW}`"
                );
                Err(Fault::new(Code::Unimplemented, message)
                    .with_status(http::StatusCode::NOT_ACCEPTABLE))
            }
            Some(_) | None => Ok(Projection::Envelope),
        }
    }

    /// The `Content-Type` of the answer.
    pub(crate) fn content_type(self) -> HeaderValue {
        match self {
            Projection::Envelope => HeaderValue::from_static(ENVELOPE),
            Projection::Raw => HeaderValue::from_static(RAW),
        }
    }
}

/// Whether an entry is only read, or sent too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    No,
}

/// Turns lines of the log into lines for a client.
pub(crate) enum Projector {
    Envelope(EnvelopeProjector),
    Raw,
}

impl Projector {
    pub(crate) fn new(projection: Projection) -> Projector {
        match projection {
            Projection::Envelope => Projector::Envelope(EnvelopeProjector::new()),
            Projection::Raw => Projector::Raw,
        }
    }

    /// Adds what a line of the log, with its line break, is for the client.
    pub(crate) fn project(&mut self, line: &[u8], sent: Sent, out: &mut Vec<u8>) {
        match self {
            Projector::Raw => {
                if sent == Sent::Yes {
                    out.extend_from_slice(line);
                }
            }
            Projector::Envelope(projector) => {
                let Ok(entry) = RunEvent::parse_line(line) else {
                    // Ours, and of a version that is not: readers pass it over.
                    return;
                };
                // One that is not sent still names the step of one that is.
                let line = projector.project(&entry);
                if let Some(line) = line.filter(|_| sent == Sent::Yes) {
                    out.extend_from_slice(line.to_line().as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::ACCEPT};

    use super::Projection;

    #[track_caller]
    fn check(accept: &'static str, expected: Option<Projection>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        assert_eq!(Projection::asked(&headers).ok(), expected, "{accept}");
    }

    #[test]
    fn the_header_decides_and_the_envelope_is_what_it_means_by_nothing() {
        assert_eq!(Projection::asked(&HeaderMap::new()).ok(), Some(Projection::Envelope));
        check("*/*", Some(Projection::Envelope));
        check("application/json", Some(Projection::Envelope));
        check("application/x-ndjson", Some(Projection::Envelope));
        check("application/vnd.mayfly.run+ndjson", Some(Projection::Raw));
        check("Application/Vnd.Mayfly.Run+NDJSON;q=1, */*", Some(Projection::Raw));
        check("text/event-stream", None);
        check("text/event-stream, */*;q=0.1", Some(Projection::Envelope));
        check("application/vnd.ag-ui.event+proto", None);
    }
}
