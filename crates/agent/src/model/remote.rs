//! A provider behind the host link: HTTP, timeouts, retries.
//!
//! ```text
//! ask ──► head ──► events … ──► Answer
//!  ▲        │         │
//!  └─ wait ◄┴─────────┘   429, 5xx, a broken connection: until content has come
//! ```
//!
//! Once content has come nothing is asked again: people have read it already.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use wire::sse::Decoder;

use super::{
    Answer, Conversation, Listener, Model, ModelError, Pending, backoff,
    dialect::{Assembly, Dialect, Progress, StreamError},
    error::BadAnswer,
    refusal::Refusal,
};
use crate::{
    http::{self as link, HttpError},
    session::Session,
};

/// Longest event of a stream.
const EVENT_BYTES: usize = 9 << 20;
/// Most bytes of one answer on the wire, its framing and its pings included.
const STREAM_BYTES: u64 = 64 << 20;
/// Most bytes that are read of the body of a bad status.
const REFUSAL_BYTES: u64 = 64 << 10;

/// A provider behind the host link.
pub(super) struct Remote<D> {
    dialect: D,
    url: String,
    limit_ms: u64,
}

/// One try that gave no answer.
enum Setback {
    /// It may go better in a while.
    Passing {
        err: ModelError,
        asked: Option<Duration>,
    },
    Final(ModelError),
}

impl<D: Dialect> Model for Remote<D> {
    fn answer<'a>(
        &'a self,
        conversation: &'a Conversation,
        listener: &'a (dyn Listener + 'a),
    ) -> Pending<'a, Result<Answer, ModelError>> {
        Box::pin(self.ask(conversation, listener))
    }
}

impl<D: Dialect> Remote<D> {
    pub(super) fn new(dialect: D, session: &Session) -> Remote<D> {
        let url = format!("{}{}", session.link, D::PATH);
        Remote { dialect, url, limit_ms: session.limits.model_timeout_ms }
    }

    async fn ask(
        &self,
        conversation: &Conversation,
        listener: &dyn Listener,
    ) -> Result<Answer, ModelError> {
        let body = Bytes::from(self.dialect.body(conversation).to_string());
        let mut tried = 1;
        loop {
            let (err, asked) = match self.attempt(body.clone(), listener).await {
                Ok(answer) => return Ok(answer),
                Err(Setback::Final(err)) => return Err(err),
                Err(Setback::Passing { err, asked }) => (err, asked),
            };
            if tried == backoff::TRIES {
                return Err(err);
            }
            let wait = backoff::wait(tried, asked);
            let notice = format!(
                "{err}; asking again in {} ms (try {tried} of {})",
                wait.as_millis(),
                backoff::TRIES
            );
            listener.retry(&notice);
            tokio::time::sleep(wait).await;
            tried += 1;
        }
    }

    async fn attempt(&self, body: Bytes, listener: &dyn Listener) -> Result<Answer, Setback> {
        let mut request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "text/event-stream");
        for (name, value) in D::HEADERS {
            request = request.header(*name, *value);
        }
        let request = request.body(link::whole_body(body));
        let request = request.map_err(|err| {
            Setback::Final(ModelError::Unreachable(format!("`{}`: {err}", self.url)))
        })?;
        let sent = link::send(request, self.patience()).await;
        let answer = sent.map_err(|err| self.unreachable(err))?;
        if answer.status.is_success() {
            self.stream(answer, listener).await
        } else {
            Err(self.refused(answer).await)
        }
    }

    /// Reads the answer's events until it is complete.
    async fn stream(
        &self,
        mut answer: link::Answer,
        listener: &dyn Listener,
    ) -> Result<Answer, Setback> {
        if let Some(kind) = other_than_events(&answer.headers) {
            return Err(Setback::Final(BadAnswer::NoStream(kind).into()));
        }
        let mut decoder = Decoder::new(EVENT_BYTES);
        let mut assembly = self.dialect.assembly();
        let mut left = STREAM_BYTES;
        loop {
            let chunk = match answer.next_chunk(self.patience()).await {
                Ok(chunk) => chunk,
                Err(err) => return Err(self.broke_off(&err, &assembly)),
            };
            let ended = chunk.is_none();
            // At the end a last event may lack the empty line that ends it.
            let chunk = chunk.unwrap_or_else(|| Bytes::from_static(b"\n\n"));
            left = left.checked_sub(chunk.len() as u64).ok_or_else(|| {
                let limit = usize::try_from(STREAM_BYTES).unwrap_or(usize::MAX);
                Setback::Final(BadAnswer::TooLarge { limit }.into())
            })?;
            decoder.push(&chunk);
            if drain(&mut decoder, &mut assembly, listener)? == Progress::Complete || ended {
                break;
            }
        }
        let begun = assembly.begun();
        assembly.finish().map_err(|bad| {
            // Hung up before a word was said: as good as not having answered.
            if !begun && matches!(bad, BadAnswer::NoStop) {
                let err = ModelError::BrokenOff("it ended before it began".to_owned());
                return Setback::Passing { err, asked: None };
            }
            Setback::Final(bad.into())
        })
    }

    /// Says what a bad status means.
    async fn refused(&self, answer: link::Answer) -> Setback {
        let status = answer.status;
        let asked = backoff::asked(&answer.headers);
        let refusal = match answer.read_whole(REFUSAL_BYTES, self.patience()).await {
            Ok(body) => Refusal::from_body(&body),
            Err(err) => Refusal { kind: None, message: format!("its reason is lost, {err}") },
        };
        if status == StatusCode::TOO_MANY_REQUESTS
            && refusal.kind.as_deref() == Some("token_budget")
        {
            return Setback::Final(ModelError::TokenBudget(refusal.message));
        }
        let err = ModelError::Status { status: status.as_u16(), message: refusal.shown() };
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            Setback::Passing { err, asked }
        } else {
            Setback::Final(err)
        }
    }

    fn unreachable(&self, err: HttpError) -> Setback {
        match err {
            HttpError::Timeout(_) => Setback::Final(self.timeout()),
            HttpError::Connect { .. } | HttpError::Broken { .. } => {
                let err = ModelError::Unreachable(chain(&err));
                Setback::Passing { err, asked: None }
            }
            HttpError::BadUrl(_) | HttpError::TooLarge(_) => {
                Setback::Final(ModelError::Unreachable(err.to_string()))
            }
        }
    }

    fn broke_off(&self, err: &HttpError, assembly: &D::Assembly) -> Setback {
        match err {
            HttpError::Timeout(_) => Setback::Final(self.timeout()),
            HttpError::Connect { .. }
            | HttpError::Broken { .. }
            | HttpError::BadUrl(_)
            | HttpError::TooLarge(_) => {
                passing_unless_begun(ModelError::BrokenOff(chain(err)), assembly)
            }
        }
    }

    fn timeout(&self) -> ModelError {
        ModelError::Timeout { limit_ms: self.limit_ms }
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }
}

/// Hands all whole events to the assembly, and what they say to the listener.
fn drain<A: Assembly>(
    decoder: &mut Decoder,
    assembly: &mut A,
    listener: &dyn Listener,
) -> Result<Progress, Setback> {
    let framing =
        |err: wire::sse::TooLong| Setback::Final(BadAnswer::Framing(err.to_string()).into());
    let mut heard = Vec::new();
    while let Some(event) = decoder.pop().map_err(framing)? {
        let progress = assembly.event(&event.data, &mut heard);
        heard.drain(..).for_each(|delta| listener.delta(delta));
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Complete) => return Ok(Progress::Complete),
            Err(StreamError::BadAnswer(bad)) => return Err(Setback::Final(bad.into())),
            Err(StreamError::Reported(refusal)) => {
                let err = ModelError::Reported(refusal.shown());
                return Err(match refusal.passes() {
                    true => passing_unless_begun(err, assembly),
                    false => Setback::Final(err),
                });
            }
        }
    }
    Ok(Progress::More)
}

fn passing_unless_begun(err: ModelError, assembly: &impl Assembly) -> Setback {
    if assembly.begun() { Setback::Final(err) } else { Setback::Passing { err, asked: None } }
}

/// What the answer is, if it says that it is no stream of events. Servers that
/// say nothing are believed to mean it.
fn other_than_events(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let named = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    ["application/json", "text/html"].contains(&named.as_str()).then_some(named)
}

/// An error with its causes, since the first alone says little.
fn chain(err: &dyn std::error::Error) -> String {
    let mut said = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        said = format!("{said}: {err}");
        cause = err.source();
    }
    said
}
