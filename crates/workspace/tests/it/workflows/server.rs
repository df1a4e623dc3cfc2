//! The workspace's real routes on a free port, with a store of their own.

use std::{future::Future, time::Duration};

use chrono::TimeDelta;
use http_kit::{Keys, Team};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use store::{Blobs, Store};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use wire::Secret;
use workspace::{RunnerAddress, RunnerKey, Settings, Workspace, router};

/// Longest wait for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Server {
    pub(super) url: String,
    pub(super) store: Store,
    pub(super) workspace: Workspace,
    settings: Settings,
    client: reqwest::Client,
    _task: AbortOnDropHandle<()>,
    _directory: TempDir,
}

impl Server {
    /// A server whose runner is at `runner`; an empty address is none.
    pub(super) async fn start(runner: &str) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keys = Keys::new(|key| {
            let team = key.strip_prefix("key_of_").map(|team| Team(team.to_owned()));
            Box::pin(async move { Ok(team) })
        });
        let settings = Settings {
            store: store.clone(),
            blobs: Blobs::disk(&directory.path().join("blobs")).unwrap(),
            keys,
            secret: Secret::new([7; 32]),
            base_url: url.clone(),
            runner: RunnerAddress {
                url: runner.to_owned(),
                key: RunnerKey::Fixed(Secret::new("key_for_the_runner".to_owned())),
            },
            max_runtime: Duration::from_secs(60),
            bag_url_ttl: Duration::from_secs(60),
            listener_grace: Duration::ZERO,
            keep: TimeDelta::days(1),
        };
        let workspace = Workspace::new(settings.clone());
        let (router, _) = router(workspace.clone());
        let serving =
            http_kit::serve(listener, router, CancellationToken::new(), Duration::from_secs(1));
        let task = tokio::spawn(async move { serving.await.unwrap() });
        Server {
            url,
            store,
            workspace,
            settings,
            client: reqwest::Client::new(),
            _task: AbortOnDropHandle::new(task),
            _directory: directory,
        }
    }

    /// What a server that is started after this one finds.
    pub(super) fn next(&self) -> Workspace {
        Workspace::new(self.settings.clone())
    }

    /// A server with the agent `Writer`.
    pub(super) async fn with_agent(runner: &str) -> Server {
        let server = Server::start(runner).await;
        let agent = json!({ "name": "Writer", "systemPrompt": "You write." });
        let (status, body) = server.ask(Method::POST, "/api/agents", Some(&agent)).await;
        assert_eq!(status, 201, "{body}");
        server
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        accept: &str,
    ) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = request.header("x-api-key", "key_of_red").header("accept", accept);
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        request.send().await.unwrap()
    }

    /// A request that is answered with JSON, or with nothing.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let answer = self.send(method, path, body, "application/json").await;
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(Method::GET, path, None).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The lines of a stream, to its end.
    pub(super) async fn get_lines(&self, path: &str) -> Vec<String> {
        let answer = self.send(Method::GET, path, None, "*/*").await;
        assert_eq!(answer.status(), 200);
        lines(&answer.text().await.unwrap())
    }

    /// Stores a workflow and gives its id.
    pub(super) async fn workflow(&self, graph: Value) -> String {
        let path = "/api/workspace/workflows";
        let (status, body) = self.ask(Method::POST, path, Some(&graph)).await;
        assert_eq!(status, 201, "{body}");
        body["id"].as_str().unwrap().to_owned()
    }

    /// Begins an execution; the answer is its stream.
    pub(super) async fn execute(&self, workflow: &str, body: Value) -> Response {
        let path = format!("/api/workspace/workflows/{workflow}/execute");
        let answer = self.send(Method::POST, &path, Some(&body), "*/*").await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
        answer
    }

    /// Executes to the end; every line as it came.
    pub(super) async fn lines(&self, graph: Value, input: Value) -> Vec<String> {
        let workflow = self.workflow(graph).await;
        let answer = self.execute(&workflow, json!({ "input": input })).await;
        lines(&answer.text().await.unwrap())
    }
}

/// The whole lines of a stream.
pub(super) fn lines(text: &str) -> Vec<String> {
    assert!(text.is_empty() || text.ends_with('\n'), "a line is cut off: {text:?}");
    // Not `lines()`, which takes a carriage return away.
    text.split_terminator('\n').map(str::to_owned).collect()
}

/// The line as JSON.
pub(super) fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Waits until there is something.
pub(super) async fn until<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    let seen = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap()
}
