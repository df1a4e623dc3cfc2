//! The body of `Start` and `Connect`: one reader's view of a command.
//!
//! hyper asks for a frame when its connection can take one, so a slow client
//! slows its reader down, and in the end the command.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use wire::{
    Code, Codec, ConnectError, Stream, encode_data, end_of_stream, frame,
    process::{
        process_event::{KeepAlive, StartEvent},
        response,
    },
};

use crate::{
    command::Command,
    output::{Begin, Next, ReaderId},
};

/// Bytes after which a frame is long enough.
const FRAME: usize = 64 << 10;

/// A stream of a command's events.
pub(crate) struct Reader {
    command: Rc<Command>,
    id: ReaderId,
    first_event: u64,
    codec: Codec,
    stage: Stage,
    /// Taken and not yet sent: what did not fit into the last frame.
    rest: Option<(Stream, Bytes)>,
    last_frame: Instant,
    interval: Duration,
    keepalive: Pin<Box<Sleep>>,
    deadline: Option<Pin<Box<Sleep>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    Data,
    Done,
}

impl Reader {
    /// Attaches to a command. `interval` is the silence after which the client
    /// wants to hear that we are alive.
    pub(crate) fn attach(
        command: Rc<Command>,
        begin: Begin,
        codec: Codec,
        interval: Duration,
    ) -> Reader {
        let (id, first_event) = command.output.attach(begin);
        Reader {
            command,
            id,
            first_event,
            codec,
            stage: Stage::Start,
            rest: None,
            last_frame: Instant::now(),
            interval,
            keepalive: Box::pin(sleep(interval)),
            deadline: None,
        }
    }

    /// Ends the stream, and only the stream, at that time.
    pub(crate) fn until(mut self, deadline: Option<Instant>) -> Reader {
        self.deadline = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
        self
    }

    pub(crate) fn id(&self) -> ReaderId {
        self.id
    }

    /// Number of the first event this stream will carry.
    pub(crate) fn first_event(&self) -> u64 {
        self.first_event
    }

    /// Everything there is to send now, up to a frame's length.
    fn collect(&mut self) -> BytesMut {
        let mut out = BytesMut::new();
        if self.stage == Stage::Start {
            let start = response(StartEvent { pid: self.command.wire_pid() });
            frame(&self.codec.encode(&start), &mut out);
            self.stage = Stage::Data;
        }
        while out.len() < FRAME {
            let next = match self.rest.take() {
                Some((stream, bytes)) => Next::Data(stream, bytes),
                None => self.command.output.take(self.id),
            };
            match next {
                Next::Nothing => break,
                Next::Data(stream, mut bytes) => {
                    // Base64 and what surrounds a line of usual length.
                    out.reserve((2 * bytes.len()).min(FRAME));
                    let sent = encode_data(self.codec, stream, &bytes, FRAME, &mut out);
                    if sent < bytes.len() {
                        bytes.advance(sent);
                        self.rest = Some((stream, bytes));
                    }
                }
                Next::Ended(event) => {
                    frame(&event.encode_response(self.codec), &mut out);
                    self.finish(None, &mut out);
                    break;
                }
                Next::Cut(error) => {
                    self.finish(Some(&error), &mut out);
                    break;
                }
            }
        }
        out
    }

    fn finish(&mut self, error: Option<&ConnectError>, out: &mut BytesMut) {
        out.extend_from_slice(&end_of_stream(error));
        self.stage = Stage::Done;
    }

    /// What time has brought: the deadline or a sign of life.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<BytesMut> {
        let mut out = BytesMut::new();
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            let error = ConnectError::new(Code::DeadlineExceeded, "the stream's time limit passed");
            self.finish(Some(&error), &mut out);
            return Poll::Ready(out);
        }
        // The timer is moved when it fires, not with every frame.
        while self.keepalive.as_mut().poll(cx).is_ready() {
            let due = self.last_frame + self.interval;
            if due <= Instant::now() {
                frame(&self.codec.encode(&response(KeepAlive {})), &mut out);
                self.keepalive.as_mut().reset(Instant::now() + self.interval);
                return Poll::Ready(out);
            }
            self.keepalive.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl Body for Reader {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let reader = self.get_mut();
        if reader.stage == Stage::Done {
            return Poll::Ready(None);
        }
        let mut out = reader.collect();
        if out.is_empty() {
            reader.command.output.wait(reader.id, cx.waker());
            match reader.poll_time(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(timely) => out = timely,
            }
        }
        reader.last_frame = Instant::now();
        Poll::Ready(Some(Ok(Frame::data(out.freeze()))))
    }

    fn is_end_stream(&self) -> bool {
        self.stage == Stage::Done
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.command.output.detach(self.id);
    }
}
