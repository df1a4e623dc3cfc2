//! Commands as the host itself drives them: started, joined and fed through
//! envd, in binary. Clients that drive envd themselves pass through the gateway
//! byte for byte and do not come here.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http::{
    Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use wire::{
    Code, Codec, Envelope, EnvelopeDecoder, MESSAGE_LIMIT, frame,
    process::{self as pb, process_event::Event},
};

use crate::{EnvdError, Sandbox, full_body};

/// Between us and envd messages travel in binary: no base64 to undo.
const CODEC: Codec = Codec::Proto;
/// Longest answer to a unary call that is read; they are a few bytes.
const ANSWER_LIMIT: usize = 64 << 10;

/// What becomes of a command's output while nobody reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The oldest of it goes.
    Dropped,
    /// It stays, and the command waits with more.
    Held,
}

/// How a command is started, beside what it is.
#[derive(Clone, Copy, Debug)]
pub struct StartOptions<'a> {
    /// After that many milliseconds it is killed; zero means never.
    pub timeout_ms: u64,
    /// Who runs it, when not the sandbox's default user.
    pub user: Option<&'a str>,
    /// Its output when nobody reads.
    pub unread: Unread,
}

/// A command could not be started, joined, fed or followed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The sandbox does not answer.
    #[error(transparent)]
    Envd(#[from] EnvdError),
    /// envd says no.
    #[error("{message}")]
    Refused {
        /// Its code.
        code: Code,
        /// Its words.
        message: String,
    },
    /// What came is not what envd says.
    #[error("the sandbox {0}")]
    Malformed(&'static str),
}

/// What comes next on a command's stream.
#[derive(Debug)]
pub enum Next {
    /// Something happened.
    Event(Event),
    /// The stream ends with an error.
    Failed(ProcessError),
    /// The stream ends.
    Closed,
}

impl Sandbox {
    /// Starts a command. Its first event says its pid, unless it was refused.
    pub async fn start(
        &self,
        message: &pb::StartRequest,
        options: StartOptions<'_>,
    ) -> Result<Events, ProcessError> {
        let mut request = Request::post("/process.Process/Start");
        if options.timeout_ms > 0 {
            request = request.header("connect-timeout-ms", options.timeout_ms);
        }
        if let Some(user) = options.user {
            let credentials = wire::base64(format!("{user}:").as_bytes());
            request = request.header(AUTHORIZATION, format!("Basic {credentials}"));
        }
        request = match options.unread {
            Unread::Dropped => request,
            Unread::Held => request.header("mayfly-hold", "1"),
        };
        self.stream(request, &CODEC.encode(message)).await
    }

    /// Joins a command that runs or ended not long ago, behind its event `after`.
    pub async fn connect(
        &self,
        process: pb::ProcessSelector,
        after: u64,
    ) -> Result<Events, ProcessError> {
        let message = pb::ConnectRequest { process: process.into() };
        let request = Request::post("/process.Process/Connect").header("mayfly-after", after);
        self.stream(request, &CODEC.encode(&message)).await
    }

    /// Writes to a command's standard input. Returns when it has been taken.
    pub async fn send_input(
        &self,
        process: pb::ProcessSelector,
        bytes: Bytes,
    ) -> Result<(), ProcessError> {
        let input = pb::ProcessInput { input: Some(pb::process_input::Input::Stdin(bytes)) };
        let message = pb::SendInputRequest { process: process.into(), input: input.into() };
        self.call("/process.Process/SendInput", CODEC.encode(&message)).await
    }

    /// Ends a command's standard input.
    pub async fn close_stdin(&self, process: pb::ProcessSelector) -> Result<(), ProcessError> {
        let message = pb::CloseStdinRequest { process: process.into() };
        self.call("/process.Process/CloseStdin", CODEC.encode(&message)).await
    }

    /// Sends a signal to a command and its process group.
    pub async fn send_signal(
        &self,
        process: pb::ProcessSelector,
        signal: pb::Signal,
    ) -> Result<(), ProcessError> {
        let message = pb::SendSignalRequest { process: process.into(), signal: signal.into() };
        self.call("/process.Process/SendSignal", CODEC.encode(&message)).await
    }

    async fn stream(
        &self,
        request: http::request::Builder,
        payload: &[u8],
    ) -> Result<Events, ProcessError> {
        let mut body = BytesMut::new();
        frame(payload, &mut body);
        let request = request
            .header(CONTENT_TYPE, CODEC.stream_type())
            .body(full_body(body.freeze()))
            .map_err(|_| refused(Code::InvalidArgument, "the request cannot be passed on"))?;
        let response = self.envd().send(request).await?;
        let first = response.headers().get("mayfly-first-seq");
        let first_seq = first.and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Events::new(response.into_body(), first_seq))
    }

    async fn call(&self, path: &'static str, message: Bytes) -> Result<(), ProcessError> {
        let request = Request::post(path)
            .header(CONTENT_TYPE, CODEC.unary_type())
            .body(full_body(message))
            .map_err(|_| refused(Code::InvalidArgument, "the request cannot be passed on"))?;
        let response = self.envd().send(request).await?;
        let status = response.status();
        let answer = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
        // Read whole in both cases, so that the connection can be used again.
        let answer = answer.map(|answer| answer.to_bytes()).unwrap_or_default();
        if status.is_success() {
            return Ok(());
        }
        Err(match serde_json::from_slice::<Failure>(&answer) {
            Ok(failure) => failure.into(),
            Err(_) if status == StatusCode::NOT_FOUND => refused(Code::NotFound, "not found"),
            Err(_) => ProcessError::Malformed("answered a call with an error that says nothing"),
        })
    }
}

/// The events of one command, as they come.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    decoder: EnvelopeDecoder,
    waiting: VecDeque<Next>,
    first_seq: Option<u64>,
}

impl Events {
    fn new(body: Incoming, first_seq: Option<u64>) -> Events {
        let decoder = EnvelopeDecoder::new(MESSAGE_LIMIT);
        Events { body, decoder, waiting: VecDeque::new(), first_seq }
    }

    /// The number of the first piece of output that will come.
    pub fn first_seq(&self) -> Option<u64> {
        self.first_seq
    }

    /// The next event that is here already.
    pub fn ready(&mut self) -> Option<Next> {
        self.waiting.pop_front()
    }

    /// Gives back an event, which comes next again.
    pub fn put_back(&mut self, next: Next) {
        self.waiting.push_front(next);
    }

    /// Waits for the next event. Dropping the wait loses nothing.
    pub async fn next(&mut self) -> Next {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return next;
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data);
                        self.cut();
                    }
                }
                Some(Err(_)) | None => return Next::Closed,
            }
        }
    }

    fn cut(&mut self) {
        loop {
            let next = match self.decoder.pop() {
                Ok(None) => return,
                Ok(Some(Envelope::Message(payload))) => match read_event(&payload) {
                    Some(event) => Next::Event(event),
                    None => Next::Failed(ProcessError::Malformed("sent no event")),
                },
                Ok(Some(Envelope::End(payload))) => read_end(&payload),
                Err(err) => Next::Failed(refused(Code::Internal, &err.to_string())),
            };
            let last = matches!(next, Next::Failed(_) | Next::Closed);
            self.waiting.push_back(next);
            if last {
                return;
            }
        }
    }
}

fn read_event(payload: &[u8]) -> Option<Event> {
    let response: pb::StartResponse = CODEC.decode(payload).ok()?;
    response.event.into_option()?.event
}

/// An end without an error is only seen by a reader that went past `end`.
fn read_end(payload: &[u8]) -> Next {
    #[derive(Deserialize)]
    struct End {
        error: Option<Failure>,
    }
    match serde_json::from_slice::<End>(payload) {
        Ok(End { error: None }) => Next::Closed,
        Ok(End { error: Some(failure) }) => Next::Failed(failure.into()),
        Err(_) => Next::Failed(ProcessError::Malformed("sent a broken end")),
    }
}

/// An error as Connect writes it.
#[derive(Deserialize)]
struct Failure {
    code: String,
    message: String,
}

impl From<Failure> for ProcessError {
    fn from(failure: Failure) -> ProcessError {
        let code = Code::parse(&failure.code).unwrap_or(Code::Unknown);
        ProcessError::Refused { code, message: failure.message }
    }
}

fn refused(code: Code, message: &str) -> ProcessError {
    ProcessError::Refused { code, message: message.to_owned() }
}
