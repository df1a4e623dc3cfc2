//! A host link on loopback: answers by path, and remembers what it was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// How a path is answered.
#[derive(Clone)]
pub(crate) enum Reply {
    /// A status and a JSON document.
    Json(u16, Value),
    /// 200 and bytes.
    Bytes(Vec<u8>),
    /// Nothing, and the connection stays open.
    Never,
    /// 200, and a body that never ends.
    Endless,
    /// 200, and a body that comes too slowly to be worth it.
    Dripping,
    /// 200, and a connection that breaks in the body.
    Broken,
}

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) authorization: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) content_length: Option<u64>,
    pub(crate) body: Bytes,
}

/// The server. It ends when it is dropped.
pub(crate) struct Host {
    pub(crate) link: String,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Shared {
    replies: Mutex<BTreeMap<String, Reply>>,
    asked: Mutex<Vec<Asked>>,
}

impl Host {
    /// A host that knows an empty environment and a scripted model.
    pub(crate) fn new() -> Host {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let link = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        runtime.spawn(async move { axum::serve(listener, router).await });
        let host = Host { link, shared, _runtime: runtime };
        host.on("GET /agent/env", Reply::Json(200, json!({})));
        host.config(json!({}));
        host
    }

    /// Sets the answer to a method and a path.
    pub(crate) fn on(&self, line: &str, reply: Reply) {
        self.shared.replies.lock().unwrap().insert(line.to_owned(), reply);
    }

    /// Sets the environment.
    pub(crate) fn env(&self, variables: Value, setup_script: &str) {
        let env = json!({"variables": variables, "setup_script": setup_script});
        self.on("GET /agent/env", Reply::Json(200, env));
    }

    /// Sets the configuration, with a model that says `done` unless it has one.
    pub(crate) fn config(&self, mut config: Value) {
        if config.get("model").is_none() {
            config["model"] = json!({"provider": "scripted", "script": [{"text": "done"}]});
        }
        self.on("GET /agent/config", Reply::Json(200, config));
    }

    /// Everything that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The same, as methods and paths.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let line = format!("{} {}", head.method, head.uri);
    let text = |name| Some(head.headers.get(name)?.to_str().unwrap().to_owned());
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    shared.asked.lock().unwrap().push(Asked {
        line: line.clone(),
        authorization: text(header::AUTHORIZATION),
        content_type: text(header::CONTENT_TYPE),
        content_length: text(header::CONTENT_LENGTH).map(|text| text.parse().unwrap()),
        body,
    });
    let reply = shared.replies.lock().unwrap().get(&line).cloned();
    let ok = |body| Response::new(body);
    match reply {
        None => status(404, json!({"code": "not_found"})),
        Some(Reply::Json(code, value)) => status(code, value),
        Some(Reply::Bytes(bytes)) => ok(Body::from(bytes)),
        Some(Reply::Never) => std::future::pending().await,
        Some(Reply::Endless) => {
            let chunk = Bytes::from(vec![b' '; 64 << 10]);
            let chunks = stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
            ok(Body::from_stream(chunks))
        }
        Some(Reply::Dripping) => ok(Body::from_stream(stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
        }))),
        Some(Reply::Broken) => {
            let broken = std::io::Error::other("broken on purpose");
            ok(Body::from_stream(stream::iter([Ok(Bytes::from_static(b"{")), Err(broken)])))
        }
    }
}

fn status(code: u16, value: Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
