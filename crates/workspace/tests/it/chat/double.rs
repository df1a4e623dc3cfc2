//! A runner that is played line by line by the test.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_util::task::AbortOnDropHandle;

pub(super) const RAW: &str = "application/vnd.mayfly.run+ndjson";
pub(super) const ENVELOPE: &str = "application/x-ndjson";
/// What every run of the double is called.
pub(super) const RUN: &str = "run_0123456789abcdefghjkmnpq";
const PATIENCE: Duration = Duration::from_secs(20);

type Piece = io::Result<String>;

/// The runner; it is gone when this is dropped.
pub(super) struct Runner {
    pub(super) url: String,
    calls: mpsc::UnboundedReceiver<Call>,
    cancelled: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

/// A request for a stream, and the way to answer it.
pub(super) struct Call {
    pub(super) headers: HeaderMap,
    /// The dispatch; null for one that follows.
    pub(super) body: Value,
    /// The query of one that follows.
    pub(super) query: String,
    lines: mpsc::UnboundedSender<Piece>,
    seq: u64,
}

#[derive(Clone)]
struct Stage {
    content_type: &'static str,
    calls: mpsc::UnboundedSender<Call>,
    cancelled: Arc<Mutex<Vec<String>>>,
}

impl Runner {
    pub(super) async fn start(content_type: &'static str) -> Runner {
        let (sender, calls) = mpsc::unbounded_channel();
        let cancelled = Arc::default();
        let stage = Stage { content_type, calls: sender, cancelled: Arc::clone(&cancelled) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/stream", post(dispatch))
            .route("/runs/{id}/stream", get(follow))
            .route("/runs/{id}/cancel", post(cancel))
            .with_state(stage);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Runner { url, calls, cancelled, _task: AbortOnDropHandle::new(task) }
    }

    /// The next request for a stream.
    pub(super) async fn next(&mut self) -> Call {
        timeout(PATIENCE, self.calls.recv()).await.unwrap().unwrap()
    }

    pub(super) fn cancelled(&self) -> Vec<String> {
        self.cancelled.lock().unwrap().clone()
    }
}

impl Call {
    /// Goes on counting behind an entry.
    pub(super) fn from(mut self, seq: u64) -> Call {
        self.seq = seq;
        self
    }

    /// Sends an entry of the raw log.
    pub(super) fn entry(&mut self, mut event: Value) {
        self.seq += 1;
        event["seq"] = self.seq.into();
        event["ts"] = 1_700_000_000_000_u64.into();
        self.send(&format!("{event}\n"));
    }

    pub(super) fn text(&mut self, delta: &str) {
        self.entry(json!({"type": "text", "message_id": "m", "delta": delta}));
    }

    pub(super) fn result(&mut self, message: &str) {
        self.entry(json!({"type": "result", "message": message}));
    }

    /// Sends bytes as they are.
    pub(super) fn send(&self, text: &str) {
        // Whoever hung up hears nothing more.
        let _ = self.lines.send(Ok(text.to_owned()));
    }

    /// Breaks the connection off.
    pub(super) fn break_off(self) {
        let _ = self.lines.send(Err(io::Error::other("gone")));
    }

    /// Waits until the caller hangs up.
    pub(super) async fn hung_up(&self) {
        timeout(PATIENCE, self.lines.closed()).await.unwrap();
    }
}

async fn dispatch(
    State(stage): State<Stage>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    answer(&stage, headers, body, String::new())
}

async fn follow(State(stage): State<Stage>, headers: HeaderMap, query: RawQuery) -> Response {
    answer(&stage, headers, Value::Null, query.0.unwrap_or_default())
}

async fn cancel(State(stage): State<Stage>, Path(id): Path<String>) -> Json<Value> {
    stage.cancelled.lock().unwrap().push(id);
    Json(json!({}))
}

fn answer(stage: &Stage, headers: HeaderMap, body: Value, query: String) -> Response {
    let (lines, mut pieces) = mpsc::unbounded_channel::<Piece>();
    stage.calls.send(Call { headers, body, query, lines, seq: 0 }).unwrap();
    let body = Body::from_stream(stream::poll_fn(move |context| pieces.poll_recv(context)));
    ([(header::CONTENT_TYPE.as_str(), stage.content_type), ("x-mayfly-run-id", RUN)], body)
        .into_response()
}
