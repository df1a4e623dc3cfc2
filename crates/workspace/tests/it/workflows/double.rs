//! A runner that does what a test tells it, and remembers what it was asked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// One thing that the runner does with a dispatch.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Sends these bytes.
    Send(&'static str),
    /// Uploads a file as the sandbox would, with the upload token.
    WriteBack { name: &'static str, content: &'static str },
    /// Says nothing more until the caller hangs up.
    Hang,
}

/// A dispatch that came.
#[derive(Clone, Debug)]
pub(super) struct Dispatch {
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
    /// Cancelled when the caller has hung up on `Act::Hang`.
    pub(super) hung_up: CancellationToken,
}

#[derive(Clone, Default)]
struct Stage {
    scripts: Arc<Mutex<VecDeque<Vec<Act>>>>,
    dispatches: Arc<Mutex<Vec<Dispatch>>>,
}

/// The runner; it is gone when this is dropped.
pub(super) struct Double {
    pub(super) url: String,
    stage: Stage,
    _task: AbortOnDropHandle<()>,
}

impl Double {
    /// A runner that plays one script after the other.
    pub(super) async fn start(scripts: impl IntoIterator<Item = Vec<Act>>) -> Double {
        let stage = Stage::default();
        stage.scripts.lock().unwrap().extend(scripts);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/stream", post(stream)).with_state(stage.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Double { url, stage, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn dispatches(&self) -> Vec<Dispatch> {
        self.stage.dispatches.lock().unwrap().clone()
    }

    pub(super) fn prompts(&self) -> Vec<String> {
        let prompt = |one: Dispatch| one.body["prompt"].as_str().unwrap().to_owned();
        self.dispatches().into_iter().map(prompt).collect()
    }
}

async fn stream(
    State(stage): State<Stage>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let script = stage.scripts.lock().unwrap().pop_front().unwrap_or_default();
    let hung_up = CancellationToken::new();
    let dispatch = Dispatch { headers, body: body.clone(), hung_up: hung_up.clone() };
    stage.dispatches.lock().unwrap().push(dispatch);
    let (sender, mut receiver) = mpsc::channel::<String>(1);
    tokio::spawn(async move {
        for act in script {
            match act {
                Act::Send(text) => drop(sender.send(text.to_owned()).await),
                Act::WriteBack { name, content } => write_back(&body, name, content).await,
                Act::Hang => {
                    sender.closed().await;
                    hung_up.cancel();
                }
            }
        }
    });
    let chunks = futures_util::stream::poll_fn(move |context| receiver.poll_recv(context));
    let chunks = futures_util::StreamExt::map(chunks, Ok::<_, std::convert::Infallible>);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(chunks)).into_response()
}

async fn write_back(body: &Value, name: &str, content: &str) {
    let form = format!(
        "--line\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: text/plain\r\n\r\n{content}\r\n--line--\r\n"
    );
    let answer = reqwest::Client::new()
        .post(format!("{}/results", body["agent_url"].as_str().unwrap()))
        .header("authorization", body["otp_upload"].as_str().unwrap())
        .header("content-type", "multipart/form-data; boundary=line")
        .body(form)
        .send()
        .await
        .unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
}
