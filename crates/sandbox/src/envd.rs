//! The host's connections to one sandbox's envd.
//!
//! HTTP/1.1 over the sandbox's own socket, idle connections kept: a stream has
//! a connection to itself, so a reader that stops holds up nobody else.

use std::{
    error::Error,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Uri, uri::PathAndQuery};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
};
use isolate::Instance;
use tokio::net::UnixStream;
use wire::Init;

/// A request's body, whatever it is made of.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// A body without bytes.
pub fn empty_body() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body that is there already.
pub fn full_body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// envd did not answer.
#[derive(Debug, thiserror::Error)]
pub enum EnvdError {
    /// The connection failed.
    #[error("the sandbox does not answer")]
    Unreachable(#[source] hyper_util::client::legacy::Error),
    /// It answered, but not as it should.
    #[error("the sandbox answered {0} to its own start")]
    Refused(http::StatusCode),
    /// It took too long.
    #[error("the sandbox did not answer within {} s", .0.as_secs())]
    Late(Duration),
}

/// A client of one envd.
#[derive(Clone)]
pub struct Envd {
    client: Client<Dial, Body>,
}

impl Envd {
    /// How long a fresh envd may take to answer for the first time.
    const FIRST_ANSWER: Duration = Duration::from_secs(20);

    pub(crate) fn new(instance: Arc<dyn Instance>) -> Envd {
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(16)
            .pool_idle_timeout(Duration::from_secs(60))
            .pool_timer(hyper_util::rt::TokioTimer::new())
            // What a stream may have in flight here; hyper's own choice is 400 KiB.
            .http1_max_buf_size(128 << 10)
            .build(Dial { instance });
        Envd { client }
    }

    /// Sends a request to envd as it is, but for the authority of its URI.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, EnvdError> {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = address(path);
        self.client.request(request).await.map_err(EnvdError::Unreachable)
    }

    /// Waits until envd answers and gives it what a claim decides.
    pub(crate) async fn init(&self, init: &Init) -> Result<(), EnvdError> {
        let body = serde_json::to_vec(init).unwrap_or_default();
        let mut request = Request::new(full_body(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = Uri::from_static("/init");
        let answer = tokio::time::timeout(Self::FIRST_ANSWER, self.send(request)).await;
        let response = answer.map_err(|_| EnvdError::Late(Self::FIRST_ANSWER))??;
        if !response.status().is_success() {
            return Err(EnvdError::Refused(response.status()));
        }
        Ok(())
    }

    /// Opens the control stream.
    pub(crate) async fn control(&self) -> Result<Incoming, EnvdError> {
        let mut request = Request::new(empty_body());
        *request.uri_mut() = Uri::from_static("/control");
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(EnvdError::Refused(response.status()));
        }
        Ok(response.into_body())
    }
}

fn address(path: Option<PathAndQuery>) -> Uri {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(http::uri::Scheme::HTTP);
    parts.authority = Some(http::uri::Authority::from_static("envd"));
    parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    Uri::from_parts(parts).unwrap_or_default()
}

/// Connects to the sandbox's socket, whatever the URI says.
#[derive(Clone)]
struct Dial {
    instance: Arc<dyn Instance>,
}

impl tower::Service<Uri> for Dial {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<UnixStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let instance = Arc::clone(&self.instance);
        Box::pin(async move { Ok(TokioIo::new(instance.dial().await?)) })
    }
}
