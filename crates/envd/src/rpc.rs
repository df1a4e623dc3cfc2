//! `process.Process`: one file per call. Unary calls are bounded by the client's
//! timeout here; what a timeout means to a stream is up to the call.

mod connect;
mod input;
mod list;
mod send_signal;
mod start;
mod update;

use std::{future::Future, rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use hyper::body::Incoming;
use wire::{Code, Codec, ConnectError};

use crate::{
    connect::{Answer, Metadata, read_whole, stream_error, unary, unary_error, unsupported_type},
    daemon::Daemon,
};

/// A call, by the shape of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// One message each way.
    Unary(Unary),
    /// Many messages one way.
    Streaming(Streaming),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    List,
    SendSignal,
    SendInput,
    CloseStdin,
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streaming {
    Start,
    Connect,
    StreamInput,
}

impl Method {
    /// Reads the last part of a call's path.
    pub(crate) fn parse(name: &str) -> Option<Method> {
        Some(match name {
            "List" => Method::Unary(Unary::List),
            "SendSignal" => Method::Unary(Unary::SendSignal),
            "SendInput" => Method::Unary(Unary::SendInput),
            "CloseStdin" => Method::Unary(Unary::CloseStdin),
            "Update" => Method::Unary(Unary::Update),
            "Start" => Method::Streaming(Streaming::Start),
            "Connect" => Method::Streaming(Streaming::Connect),
            "StreamInput" => Method::Streaming(Streaming::StreamInput),
            _ => return None,
        })
    }
}

/// Answers one call.
pub(crate) async fn call(daemon: Rc<Daemon>, method: Method, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    match method {
        Method::Unary(method) => {
            let Some(codec) = Codec::of_unary(content_type) else {
                return unsupported_type(content_type, "application/json, application/proto");
            };
            match call_unary(&daemon, method, codec, &parts.headers, body).await {
                Ok(message) => unary(codec, message),
                Err(err) => unary_error(&err),
            }
        }
        Method::Streaming(method) => {
            let Some(codec) = Codec::of_stream(content_type) else {
                let accepted = "application/connect+json, application/connect+proto";
                return unsupported_type(content_type, accepted);
            };
            let answer = call_stream(daemon, method, codec, &parts.headers, body).await;
            answer.unwrap_or_else(|err| stream_error(codec, &err))
        }
    }
}

async fn call_unary(
    daemon: &Daemon,
    method: Unary,
    codec: Codec,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Bytes, ConnectError> {
    let metadata = Metadata::read(headers)?;
    within(metadata.timeout, async {
        let payload = read_whole(body, headers.get(header::CONTENT_ENCODING)).await?;
        match method {
            Unary::List => list::list(daemon, codec, &payload),
            Unary::SendSignal => send_signal::send_signal(daemon, codec, &payload).await,
            Unary::SendInput => input::send_input(daemon, codec, &payload).await,
            Unary::CloseStdin => input::close_stdin(daemon, codec, &payload),
            Unary::Update => update::update(daemon, codec, &payload),
        }
    })
    .await
}

async fn call_stream(
    daemon: Rc<Daemon>,
    method: Streaming,
    codec: Codec,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Answer, ConnectError> {
    let metadata = Metadata::read(headers)?;
    match method {
        Streaming::Start => start::start(daemon, codec, metadata, headers, body).await,
        Streaming::Connect => connect::connect(&daemon, codec, metadata, headers, body).await,
        Streaming::StreamInput => {
            let timeout = metadata.timeout;
            within(timeout, input::stream_input(&daemon, codec, headers, body)).await
        }
    }
}

/// Gives a call no more than the client's own patience.
async fn within<T>(
    timeout: Option<Duration>,
    call: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    match timeout {
        None => call.await,
        Some(timeout) => tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| {
            Err(ConnectError::new(Code::DeadlineExceeded, "the call's time limit passed"))
        }),
    }
}
