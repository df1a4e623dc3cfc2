//! One request to one upstream, and its answer back, streamed both ways.

use std::time::Duration;

use http::{HeaderMap, Method, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{
    body::{Allowance, Cut, Guarded, Pulse},
    headers,
    outbound::{Outbound, SendError},
    refusal::Refusal,
    target::Target,
};

/// A request that is ready to go.
pub(super) struct Passage {
    /// What the upstream is called inside.
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    /// Most bytes of the request.
    pub(super) request_bytes: u64,
    /// Most bytes of the answer.
    pub(super) answer_bytes: u64,
    /// Longest time without a byte, in either direction.
    pub(super) silence: Duration,
    /// How much of the request was sent.
    pub(super) sent: Pulse,
}

/// An answer whose body keeps to its allowance.
pub(super) type Answer = Response<Guarded<reqwest::Body>>;

impl Passage {
    /// Sends the request and gives the answer with headers that may go inside.
    /// Dropping the future, or the answer's body, hangs up on the upstream.
    pub(super) async fn send(self, outbound: &Outbound, body: Incoming) -> Result<Answer, Refusal> {
        let Passage { name: from, silence, .. } = self;
        let limit = self.request_bytes;
        if body.size_hint().lower() > limit {
            return Err(Refusal::RequestTooLarge { limit });
        }
        let sent = self.sent;
        let guarded = Guarded::new(body, Allowance { bytes: limit, silence }, sent.clone());
        let body = (!guarded.is_end_stream()).then(|| reqwest::Body::wrap(guarded));
        let mut sending = Box::pin(outbound.send(self.method, &self.target, self.headers, body));
        let answer = loop {
            // An upload takes as long as it takes; silence does not.
            let before = sent.bytes();
            match timeout(silence, &mut sending).await {
                Ok(answer) => break answer.map_err(|err| of_send(from, err))?,
                Err(_) if sent.bytes() != before => {}
                Err(_) => return Err(Refusal::Late { from, after: silence }),
            }
        };
        let (mut parts, body) = answer.into_parts();
        let status = parts.status;
        // "Not modified" leads nowhere; an upgrade was not asked for.
        if status.is_informational() || status.is_redirection() && status.as_u16() != 304 {
            return Err(Refusal::Redirect { from, status });
        }
        let limit = self.answer_bytes;
        if body.size_hint().lower() > limit {
            return Err(Refusal::AnswerTooLarge { from, limit });
        }
        parts.headers = headers::inward(&parts.headers);
        parts.extensions.clear();
        // What the upstream speaks is between it and us.
        parts.version = http::Version::HTTP_11;
        let body = Guarded::new(body, Allowance { bytes: limit, silence }, Pulse::default());
        Ok(Response::from_parts(parts, body))
    }
}

fn of_send(from: &'static str, source: SendError) -> Refusal {
    // A request that was cut on its way is whoever sent it's to know.
    if let SendError::Broken(err) = &source
        && let Some(cut) = cut_within(err)
    {
        return match cut {
            Cut::TooLarge { limit } => Refusal::RequestTooLarge { limit },
            Cut::Silent { after } => Refusal::Late { from, after },
        };
    }
    tracing::debug!("{from} {source}: {:?}", std::error::Error::source(&source));
    Refusal::NoAnswer { from, source }
}

/// The cut that made a client give up, if one did.
pub(super) fn cut_within(err: &(dyn std::error::Error + 'static)) -> Option<Cut> {
    let mut cause = Some(err);
    while let Some(err) = cause {
        if let Some(cut) = err.downcast_ref::<Cut>() {
            return Some(*cut);
        }
        cause = err.source();
    }
    None
}
