//! One command's events as NDJSON lines, one frame of lines per frame of events.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_kit::Fault;
use sandbox::{Events, Next, Sandbox, StartOptions, Unread};
use wire::{
    Code, CommandLine, CommandReason, Stream, TextDecoder,
    process::{self as pb, process_event::Event},
};

use super::find::Place;
use crate::{Gateway, e2b, fault};

/// A sandbox made for one command. It ends when this is dropped.
pub(super) struct Fresh {
    gateway: Gateway,
    sandbox: Arc<Sandbox>,
}

impl Fresh {
    pub(super) async fn new(gateway: &Gateway, new: sandbox::NewSandbox) -> Result<Fresh, Fault> {
        let sandbox = e2b::create(gateway, new).await?;
        Ok(Fresh { gateway: gateway.clone(), sandbox })
    }

    pub(super) fn sandbox(&self) -> Arc<Sandbox> {
        Arc::clone(&self.sandbox)
    }

    async fn end(&self) {
        self.sandbox.kill().await;
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let sandbox = Arc::clone(&self.sandbox);
        drop(self.gateway.sandboxes.detach(async move { sandbox.kill().await }));
    }
}

/// Whether output lines carry their number.
enum Numbers {
    /// Seed 004's lines have none.
    Left,
    /// A reader that asks by number is told the numbers.
    Shown,
}

/// A stream of events from envd whose first one has arrived.
pub(super) struct Attached {
    sandbox: Arc<Sandbox>,
    events: Events,
    lines: Lines,
    first: Bytes,
    fresh: Option<Fresh>,
}

impl Attached {
    /// Starts a command.
    pub(super) async fn start(
        sandbox: Arc<Sandbox>,
        message: pb::StartRequest,
        timeout_ms: u64,
        user: Option<&str>,
    ) -> Result<Attached, Fault> {
        let options = StartOptions { timeout_ms, user, unread: Unread::Dropped };
        let events = sandbox.start(&message, options).await.map_err(fault::of_process)?;
        Attached::open(sandbox, events, Numbers::Left).await
    }

    /// Joins a command that runs or ended not long ago, from line `after` + 1 on.
    pub(super) async fn connect(place: &Place, after: u64) -> Result<Attached, Fault> {
        let sandbox = Arc::clone(&place.sandbox);
        let process = pb::ProcessSelector::pid(place.info.pid);
        let events = sandbox.connect(process, after).await.map_err(fault::of_process)?;
        Attached::open(sandbox, events, Numbers::Shown).await
    }

    /// The sandbox that ends with the stream.
    pub(super) fn and_end(mut self, fresh: Option<Fresh>) -> Attached {
        self.fresh = fresh;
        self
    }

    /// Waits for the first event, so that a refusal can still be told by the
    /// status.
    async fn open(
        sandbox: Arc<Sandbox>,
        mut events: Events,
        numbers: Numbers,
    ) -> Result<Attached, Fault> {
        let numbering = match numbers {
            Numbers::Left => None,
            Numbers::Shown => events.first_seq(),
        };
        let mut lines = Lines::new(&sandbox, numbering);
        let mut first = BytesMut::new();
        // The start event is the first of every stream that is not refused.
        match events.next().await {
            Next::Event(event) => lines.write(event, &mut first),
            Next::Failed(err) => return Err(fault::of_process(err)),
            Next::Closed => {
                let message = "the sandbox ended before the command began";
                return Err(Fault::new(Code::Unavailable, message));
            }
        }
        Ok(Attached { sandbox, events, lines, first: first.freeze(), fresh: None })
    }

    /// The lines of everything that arrived together; `None` at the end.
    async fn next_lines(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        if self.lines.ended {
            // Only now, so that a client that read to the end finds nothing left.
            if let Some(fresh) = self.fresh.take() {
                fresh.end().await;
            }
            return None;
        }
        let mut out = BytesMut::new();
        let gone = self.sandbox.gone().clone();
        let next =
            tokio_util::future::FutureExt::with_cancellation_token(self.events.next(), &gone);
        let mut next = next.await.unwrap_or(Next::Closed);
        loop {
            match next {
                Next::Event(event) => self.lines.write(event, &mut out),
                Next::Failed(err) => self.lines.fail(&fault::of_process(err), &mut out),
                Next::Closed => {
                    self.lines.fail(&Fault::new(Code::Unavailable, "the sandbox ended"), &mut out);
                }
            }
            if self.lines.ended {
                break;
            }
            match self.events.ready() {
                Some(event) => next = event,
                None => break,
            }
        }
        // A keepalive makes no line; an empty chunk would be no harm either.
        Some(out.freeze())
    }
}

impl IntoResponse for Attached {
    fn into_response(self) -> Response {
        let lines = stream::unfold(self, |mut attached| async move {
            let lines = attached.next_lines().await?;
            Some((Ok::<_, std::convert::Infallible>(lines), attached))
        });
        let headers =
            [(CONTENT_TYPE, "application/x-ndjson"), (http::header::CACHE_CONTROL, "no-store")];
        (StatusCode::OK, headers, Body::from_stream(lines)).into_response()
    }
}

/// Writes events as lines.
struct Lines {
    sandbox_id: String,
    /// The number of the next output line, when the reader asked by number.
    next_seq: Option<u64>,
    text: [TextDecoder; 3],
    ended: bool,
}

impl Lines {
    fn new(sandbox: &Sandbox, next_seq: Option<u64>) -> Lines {
        Lines {
            sandbox_id: sandbox.id().to_string(),
            next_seq,
            text: Default::default(),
            ended: false,
        }
    }

    fn write(&mut self, event: Event, out: &mut BytesMut) {
        match event {
            Event::Start(start) => {
                let sandbox_id = self.sandbox_id.clone();
                self.line(&CommandLine::Start { pid: start.pid, sandbox_id }, out);
            }
            Event::Data(data) => {
                use pb::process_event::data_event::Output;
                match data.output {
                    Some(Output::Stdout(bytes)) => self.data(Stream::Stdout, &bytes, out),
                    Some(Output::Stderr(bytes)) => self.data(Stream::Stderr, &bytes, out),
                    Some(Output::Pty(bytes)) => self.data(Stream::Pty, &bytes, out),
                    None => {}
                }
            }
            Event::End(end) => {
                let reason = end.error.as_deref().and_then(CommandReason::parse);
                self.end(end.exit_code, reason, out);
            }
            Event::Keepalive(_) => {}
        }
    }

    /// A deadline is the command's end; everything else is an early end of the answer.
    fn fail(&mut self, fault: &Fault, out: &mut BytesMut) {
        if fault.code() == Code::DeadlineExceeded {
            return self.end(-1, None, out);
        }
        let code = fault.code().name().to_owned();
        let message = fault.message().to_owned();
        self.line(&CommandLine::Error { code, message }, out);
        self.ended = true;
    }

    fn end(&mut self, exit_code: i32, reason: Option<CommandReason>, out: &mut BytesMut) {
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Pty] {
            let rest = self.decoder(stream).finish();
            if !rest.is_empty() {
                self.text_line(stream, rest, None, out);
            }
        }
        self.line(&CommandLine::End { exit_code, reason }, out);
        self.ended = true;
    }

    fn data(&mut self, stream: Stream, bytes: &[u8], out: &mut BytesMut) {
        let data = self.decoder(stream).push(bytes);
        let seq = self.next_seq;
        self.next_seq = seq.map(|seq| seq + 1);
        self.text_line(stream, data, seq, out);
    }

    fn decoder(&mut self, stream: Stream) -> &mut TextDecoder {
        match stream {
            Stream::Stdout => &mut self.text[0],
            Stream::Stderr => &mut self.text[1],
            Stream::Pty => &mut self.text[2],
        }
    }

    fn text_line(&self, stream: Stream, data: String, seq: Option<u64>, out: &mut BytesMut) {
        let line = match stream {
            Stream::Stdout => CommandLine::Stdout { data, seq },
            Stream::Stderr => CommandLine::Stderr { data, seq },
            Stream::Pty => CommandLine::Pty { data, seq },
        };
        self.line(&line, out);
    }

    fn line(&self, line: &CommandLine, out: &mut BytesMut) {
        out.extend_from_slice(line.to_line().as_bytes());
    }
}
