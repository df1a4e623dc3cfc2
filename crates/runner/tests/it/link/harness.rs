//! A link without a sandbox: `Inside` is where the agent would be, `Upstream`
//! what a workspace or a model provider would be.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Body, extract::Request, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use runner::link::{AddressPolicy, Note, Outbound, Terms, Upstreams, serve};
use serde_json::Value;
use tokio::{
    net::{TcpListener, UnixStream},
    sync::mpsc,
    task::{AbortHandle, JoinHandle},
};
use wire::agent::AgentLimits;

pub(super) const LINK: &str = "http://127.0.0.1:4444";
pub(super) const VERSION: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What a server on loopback was asked.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A server on loopback that remembers what it was asked.
pub(super) struct Upstream {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: AbortHandle,
}

impl Upstream {
    /// One that reads requests whole and answers each by `answer`.
    pub(super) async fn start<F>(answer: F) -> Upstream
    where
        F: Fn(&Seen) -> Response + Clone + Send + Sync + 'static,
    {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let router = Router::new().fallback(move |request: Request| async move {
            let (parts, body) = request.into_parts();
            let asked = Seen {
                method: parts.method,
                path: parts.uri.to_string(),
                headers: parts.headers,
                body: body.collect().await.unwrap().to_bytes(),
            };
            notes.lock().unwrap().push(asked.clone());
            answer(&asked)
        });
        let mut upstream = Upstream::serving(router).await;
        upstream.seen = seen;
        upstream
    }

    pub(super) async fn serving(router: Router) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = async move { axum::serve(listener, router).await.unwrap() };
        let task = tokio::spawn(served).abort_handle();
        Upstream { url, seen: Arc::default(), task }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn last(&self) -> Seen {
        self.seen().pop().unwrap()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The inside of a sandbox whose link is being served.
pub(super) struct Inside {
    connections: mpsc::Sender<UnixStream>,
    pub(super) notes: mpsc::Receiver<Note>,
    served: JoinHandle<()>,
}

impl Inside {
    pub(super) fn of(upstreams: Upstreams) -> Inside {
        let (connections, arriving) = mpsc::channel(1);
        let arriving = stream::unfold(arriving, |mut arriving| async {
            Some((arriving.recv().await?, arriving))
        });
        let (sender, notes) = mpsc::channel(64);
        let served = tokio::spawn(serve(arriving, Arc::new(upstreams), sender));
        Inside { connections, notes, served }
    }

    pub(super) async fn connect(&self) -> UnixStream {
        let (near, far) = UnixStream::pair().unwrap();
        self.connections.send(far).await.unwrap();
        near
    }

    pub(super) async fn send<B>(&self, request: http::Request<B>) -> http::Response<Incoming>
    where
        B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
    {
        let connection = TokioIo::new(self.connect().await);
        let (mut sender, driver) = hyper::client::conn::http1::handshake(connection).await.unwrap();
        tokio::spawn(driver);
        sender.send_request(request).await.unwrap()
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask(request("GET", path, "")).await
    }

    pub(super) async fn post(&self, path: &str, body: &str) -> Answer {
        self.ask(request("POST", path, body)).await
    }

    pub(super) async fn ask(&self, request: http::Request<Full<Bytes>>) -> Answer {
        let (parts, body) = self.send(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.served.abort();
    }
}

/// What came back inside.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The kind of a refusal by the link itself.
    pub(super) fn refusal(&self) -> (u16, String) {
        let kind = self.json()["error"]["type"].as_str().unwrap().to_owned();
        (self.status.as_u16(), kind)
    }
}

pub(super) fn request(method: &str, path: &str, body: &str) -> http::Request<Full<Bytes>> {
    let builder = http::Request::builder().method(method).uri(path);
    let builder = builder.header(header::HOST, "127.0.0.1:4444");
    builder.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

pub(super) fn terms() -> Terms {
    Terms {
        outbound: Outbound::new(AddressPolicy::Standard).unwrap(),
        link_url: LINK.to_owned(),
        limits: AgentLimits::STANDARD,
        tokens: None,
    }
}

/// The inside of a run that brought its config.
pub(super) fn inline(config: Value) -> Inside {
    Inside::of(Upstreams::inline(config, terms()).unwrap().0)
}

pub(super) fn answer(status: u16, kind: &str, body: impl Into<Body>) -> Response {
    let builder = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    builder.body(body.into()).unwrap()
}
