//! The SDK's HTTP transport over our own client, which has no TLS to carry.
//!
//! The rules are those of the streamable HTTP transport: an answer is JSON or
//! a stream of events, 202 means taken, and 404 with a session means that the
//! session is over.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ::http::{HeaderName, HeaderValue, Method, Request, StatusCode, header, request};
use bytes::Bytes;
use futures_util::{StreamExt, stream, stream::BoxStream};
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::Sse;
use wire::sse::Decoder;

use crate::http::{self as link, HttpError};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// Largest answer that is no stream.
const BODY_BYTES: u64 = 16 << 20;
/// Most of a bad answer that is shown.
const SHOWN_CHARS: usize = 300;
/// Longest silence of a stream of notifications, which may have none all day.
const SILENCE: Duration = Duration::from_secs(24 * 60 * 60);

type Failed = StreamableHttpError<HttpError>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Speaks to one server through the host link.
#[derive(Clone)]
pub(super) struct LinkClient {
    patience: Duration,
}

impl LinkClient {
    pub(super) fn new(patience: Duration) -> LinkClient {
        LinkClient { patience }
    }

    async fn send(
        &self,
        request: request::Builder,
        session: Option<&str>,
        headers: Headers,
        body: Bytes,
    ) -> Result<link::Answer, Failed> {
        let mut request = request;
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let request = request.body(link::whole_body(body));
        let request = request.map_err(|err| unexpected(format!("no request: {err}")))?;
        link::send(request, self.patience).await.map_err(StreamableHttpError::Client)
    }
}

impl StreamableHttpClient for LinkClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limit = usize::try_from(BODY_BYTES).unwrap_or(usize::MAX);
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, limit)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        // The host link knows the server's credentials; nobody inside does.
        _token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let request = Request::post(&*uri)
            .header(header::CONTENT_TYPE, JSON)
            .header(header::ACCEPT, format!("{JSON}, {EVENTS}"));
        let answer = self.send(request, session.as_deref(), headers, body).await?;
        let awaited = matches!(message, ClientJsonRpcMessage::Request(_));
        match answer.status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            StatusCode::NOT_FOUND if session.is_some() => {
                return Err(StreamableHttpError::SessionExpired);
            }
            // Some servers answer a notification with 200 and nothing.
            status if status.is_success() && !awaited => {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            _ => {}
        }
        let session = answer.headers.get(SESSION).and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        let kind = content_type(&answer);
        if answer.status.is_success() && kind.as_deref() == Some(EVENTS) {
            let events = events(answer, limit, self.patience);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let status = answer.status;
        let body = answer.read_whole(BODY_BYTES, self.patience).await;
        let body = body.map_err(StreamableHttpError::Client)?;
        // A bad status may carry an error of the protocol, which says more.
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(parsed) if kind.as_deref() == Some(JSON) => {
                Ok(StreamableHttpPostResponse::Json(parsed, session))
            }
            Ok(_) | Err(_) => Err(unexpected(format!("HTTP {status}: {}", start_of(&body)))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        let request = Request::builder().method(Method::DELETE).uri(&*uri);
        let answer = self.send(request, Some(&session), headers, Bytes::new()).await?;
        match answer.status {
            StatusCode::METHOD_NOT_ALLOWED => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(unexpected(format!("HTTP {status} for the end of the session"))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failed> {
        let limit = usize::try_from(BODY_BYTES).unwrap_or(usize::MAX);
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, limit)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<Events, Failed> {
        let mut request = Request::get(&*uri).header(header::ACCEPT, EVENTS);
        if let Some(last) = last_event {
            request = request.header(LAST_EVENT, last);
        }
        let answer = self.send(request, session.as_deref(), headers, Bytes::new()).await?;
        let kind = content_type(&answer);
        match answer.status {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(unexpected(format!("HTTP {status}"))),
            _ if kind.as_deref() != Some(EVENTS) => {
                Err(StreamableHttpError::UnexpectedContentType(kind))
            }
            _ => Ok(events(answer, limit, SILENCE)),
        }
    }
}

/// The events of an answer, as the SDK wants them.
fn events(answer: link::Answer, limit: usize, patience: Duration) -> Events {
    let start = Some((answer, Decoder::new(limit)));
    stream::unfold(start, move |state| async move {
        let (mut answer, mut decoder) = state?;
        loop {
            match decoder.pop() {
                Err(err) => return Some((Err(SseError::Body(Box::new(err))), None)),
                Ok(Some(event)) => {
                    let wire::sse::Event { event, id, data } = event;
                    let event = Sse { event, data: Some(data), id, retry: None };
                    return Some((Ok(event), Some((answer, decoder))));
                }
                Ok(None) => {}
            }
            match answer.next_chunk(patience).await {
                Ok(Some(chunk)) => decoder.push(&chunk),
                Ok(None) => return None,
                Err(err) => return Some((Err(SseError::Body(Box::new(err))), None)),
            }
        }
    })
    .boxed()
}

fn content_type(answer: &link::Answer) -> Option<String> {
    let kind = answer.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

fn start_of(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(SHOWN_CHARS).collect()
}

fn unexpected(message: String) -> Failed {
    StreamableHttpError::UnexpectedServerResponse(message.into())
}
