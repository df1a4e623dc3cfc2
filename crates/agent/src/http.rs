//! Asking the host link: HTTP/1.1 on loopback, one connection a request.
//!
//! There is no TLS and no DNS here, and no pool: a connection costs less than
//! knowing whether a kept one is still good. Every wait has an end and every
//! body that is kept has a limit, since what answers may be anybody's.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// What is sent along with a request.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Slowest transfer of a large body that is worth waiting for, in bytes a second.
const SLOWEST: u64 = 64 << 10;

/// Why there is no answer, or not the whole of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("`{0}` is not an address that can be asked")]
    BadUrl(String),
    #[error("the host link does not answer")]
    Connect { source: io::Error },
    #[error("no answer after {}", seconds(.0))]
    Timeout(Duration),
    #[error("the connection broke")]
    Broken { source: hyper::Error },
    #[error("the answer is larger than {0} bytes")]
    TooLarge(u64),
}

/// An answer whose body is still on its way. Dropping it hangs up.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    /// Drives the connection, and ends with this answer.
    _connection: JoinSet<()>,
}

/// A body of nothing.
pub(crate) fn no_body() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body in one piece.
pub(crate) fn whole_body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// How long a body of that size may take beyond the usual time of an answer.
pub(crate) fn allowance(bytes: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / SLOWEST)
}

/// Sends a request to an address of the form `http://127.0.0.1:port/path`, and
/// waits for the head of the answer, connecting and sending included.
pub(crate) async fn send(request: Request<Body>, patience: Duration) -> Result<Answer, HttpError> {
    match timeout(patience, send_unbounded(request)).await {
        Ok(answer) => answer,
        Err(_) => Err(HttpError::Timeout(patience)),
    }
}

impl Answer {
    /// The next piece of the body; `None` at its end.
    pub(crate) async fn next_chunk(
        &mut self,
        patience: Duration,
    ) -> Result<Option<Bytes>, HttpError> {
        match timeout(patience, next_data(&mut self.body)).await {
            Ok(chunk) => chunk,
            Err(_) => Err(HttpError::Timeout(patience)),
        }
    }

    /// The whole body, in memory, when it is small enough and comes in time.
    pub(crate) async fn read_whole(
        mut self,
        limit: u64,
        patience: Duration,
    ) -> Result<Bytes, HttpError> {
        if self.declared_length().is_some_and(|length| length > limit) {
            return Err(HttpError::TooLarge(limit));
        }
        let deadline = Instant::now() + patience;
        let mut whole = BytesMut::new();
        loop {
            match timeout_at(deadline, next_data(&mut self.body)).await {
                Err(_) => return Err(HttpError::Timeout(patience)),
                Ok(Err(err)) => return Err(err),
                Ok(Ok(None)) => return Ok(whole.freeze()),
                Ok(Ok(Some(chunk))) => whole.extend_from_slice(&chunk),
            }
            if u64::try_from(whole.len()).unwrap_or(u64::MAX) > limit {
                return Err(HttpError::TooLarge(limit));
            }
        }
    }

    /// The length that the head of the answer claims.
    pub(crate) fn declared_length(&self) -> Option<u64> {
        self.headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }
}

async fn send_unbounded(mut request: Request<Body>) -> Result<Answer, HttpError> {
    let address = address(request.uri())?;
    // On the wire the target is a path, and the host is a header.
    let host = HeaderValue::from_str(&address.to_string())
        .map_err(|_| HttpError::BadUrl(request.uri().to_string()))?;
    let target = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let target = target.parse().map_err(|_| HttpError::BadUrl(request.uri().to_string()))?;
    request.headers_mut().insert(header::HOST, host);
    *request.uri_mut() = target;
    let stream =
        TcpStream::connect(address).await.map_err(|source| HttpError::Connect { source })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|source| HttpError::Broken { source })?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // Whoever waits for the answer or its body learns of the error there.
        let _ = connection.await;
    });
    let answer =
        sender.send_request(request).await.map_err(|source| HttpError::Broken { source })?;
    let (head, body) = answer.into_parts();
    Ok(Answer { status: head.status, headers: head.headers, body, _connection: driver })
}

async fn next_data(body: &mut Incoming) -> Result<Option<Bytes>, HttpError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| HttpError::Broken { source })?;
        // Anything but data is a trailer, which nobody here reads.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Only literal addresses: there is nobody inside a sandbox to resolve names.
fn address(uri: &Uri) -> Result<SocketAddr, HttpError> {
    let bad = || HttpError::BadUrl(uri.to_string());
    if uri.scheme_str() != Some("http") {
        return Err(bad());
    }
    let host = uri.host().ok_or_else(bad)?;
    let ip: IpAddr =
        host.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| bad())?;
    Ok(SocketAddr::new(ip, uri.port_u16().unwrap_or(80)))
}

/// Whole seconds read better; tests have shorter ones.
fn seconds(duration: &Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, address, allowance, seconds};

    #[test]
    fn only_literal_addresses_over_plain_http_are_asked() {
        let check = |url: &str, expected: Option<&str>| {
            let address = address(&url.parse().unwrap()).ok().map(|found| found.to_string());
            assert_eq!(address.as_deref(), expected, "{url}");
        };
        check("http://127.0.0.1:8080/a?b=c", Some("127.0.0.1:8080"));
        check("http://[::1]:1/", Some("[::1]:1"));
        check("http://127.0.0.1", Some("127.0.0.1:80"));
        check("https://127.0.0.1/", None);
        check("http://example.com/", None);
        check("/relative", None);
    }

    #[test]
    fn a_large_body_may_take_longer_but_not_forever() {
        assert_eq!(allowance(0), Duration::ZERO);
        assert_eq!(allowance(64 << 10), Duration::from_secs(1));
        assert_eq!(allowance(512 << 20), Duration::from_secs(8192));
        assert_eq!(seconds(&Duration::from_secs(30)), "30 s");
        assert_eq!(seconds(&Duration::from_millis(250)), "250 ms");
    }
}
