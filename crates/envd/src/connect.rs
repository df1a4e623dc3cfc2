//! The Connect protocol over HTTP: how requests are read and answers written.
//! What the calls do is in `rpc`.

mod messages;
mod metadata;

pub(crate) use messages::{Messages, read_one, read_whole};
pub(crate) use metadata::Metadata;

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use wire::{Code, Codec, ConnectError, end_of_stream, frame};

use crate::{control::ControlBody, reader::Reader};

/// What every route answers with.
pub(crate) type Answer = Response<AnswerBody>;

/// The body of an answer.
pub(crate) enum AnswerBody {
    /// Bytes that are there.
    Whole(Full<Bytes>),
    /// A command's events.
    Events(Reader),
    /// The host's view.
    Control(ControlBody),
}

impl AnswerBody {
    fn whole(bytes: impl Into<Bytes>) -> AnswerBody {
        AnswerBody::Whole(Full::new(bytes.into()))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            AnswerBody::Whole(body) => Pin::new(body).poll_frame(cx),
            AnswerBody::Events(body) => Pin::new(body).poll_frame(cx),
            AnswerBody::Control(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Whole(body) => body.is_end_stream(),
            AnswerBody::Events(body) => body.is_end_stream(),
            AnswerBody::Control(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(body) => body.size_hint(),
            AnswerBody::Events(body) => body.size_hint(),
            AnswerBody::Control(body) => body.size_hint(),
        }
    }
}

/// An answer of that type.
pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(AnswerBody::whole(Bytes::new()));
    *answer.status_mut() = status;
    answer
}

/// The answer of a unary call that went well.
pub(crate) fn unary(codec: Codec, message: Bytes) -> Answer {
    answer(StatusCode::OK, codec.unary_type(), AnswerBody::whole(message))
}

/// The answer of a unary call that failed.
pub(crate) fn unary_error(error: &ConnectError) -> Answer {
    let status = StatusCode::from_u16(error.code.http_status());
    json_error(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error)
}

/// The events of a command.
pub(crate) fn events(codec: Codec, reader: Reader) -> Answer {
    let first_event = HeaderValue::from(reader.first_event());
    let mut answer = answer(StatusCode::OK, codec.stream_type(), AnswerBody::Events(reader));
    answer.headers_mut().insert("mayfly-first-seq", first_event);
    answer
}

/// A stream of one message.
pub(crate) fn single(codec: Codec, message: &[u8]) -> Answer {
    let mut body = BytesMut::new();
    frame(message, &mut body);
    body.extend_from_slice(&end_of_stream(None));
    answer(StatusCode::OK, codec.stream_type(), AnswerBody::whole(body))
}

/// The answer of a streaming call that failed. Its status is 200: one of the
/// SDKs does not read the body of any other.
pub(crate) fn stream_error(codec: Codec, error: &ConnectError) -> Answer {
    answer(StatusCode::OK, codec.stream_type(), AnswerBody::whole(end_of_stream(Some(error))))
}

/// The content type is none of those the call takes.
pub(crate) fn unsupported_type(content_type: &str, accepted: &'static str) -> Answer {
    let message = format!("content type '{content_type}' is not supported; send {accepted}");
    let error = ConnectError::new(Code::InvalidArgument, message);
    let mut answer = json_error(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
    answer.headers_mut().insert("accept-post", HeaderValue::from_static(accepted));
    answer
}

/// The route exists, but not for this HTTP method.
pub(crate) fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// The service has no such method. Connect's clients read 404 as `unimplemented`.
pub(crate) fn unknown_method(name: &str) -> Answer {
    let message = format!("process.Process has no method '{name}'");
    json_error(StatusCode::NOT_FOUND, &ConnectError::new(Code::Unimplemented, message))
}

fn json_error(status: StatusCode, error: &ConnectError) -> Answer {
    answer(status, "application/json", AnswerBody::whole(error.to_json()))
}
