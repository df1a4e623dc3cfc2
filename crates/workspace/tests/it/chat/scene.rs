//! A workspace on a free port, and a client of its chat.

use std::{path::Path, time::Duration};

use chrono::{TimeDelta, Utc};
use http_kit::{Keys, Team};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use store::{Blobs, MessageRole, MessageRow, OnDisconnect, Store, TurnRow, TurnState};
use tempfile::TempDir;
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;
use wire::{
    Secret, sse,
    workspace::{ChatId, MessageId, SessionId, TurnId},
};
use workspace::{RunnerAddress, RunnerKey, Settings, Workspace};

const PATIENCE: Duration = Duration::from_secs(20);
const STREAM: &str = "/api/assistant/chat/stream";

pub(super) struct Scene {
    pub(super) url: String,
    pub(super) store: Store,
    pub(super) workspace: Workspace,
    client: reqwest::Client,
    stop: CancellationToken,
    data: TempDir,
}

impl Scene {
    pub(super) async fn start(runner: &str) -> Scene {
        Scene::on(tempfile::tempdir().unwrap(), runner).await
    }

    /// A server over what another one left.
    pub(super) async fn on(data: TempDir, runner: &str) -> Scene {
        let store = Store::open(data.path()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let workspace = Workspace::new(settings(&store, data.path(), &url, runner));
        let (router, _) = workspace::router(workspace.clone());
        let stop = CancellationToken::new();
        let serving = http_kit::serve(listener, router, stop.clone(), Duration::from_secs(1));
        tokio::spawn(async move { serving.await.unwrap() });
        Scene { url, store, workspace, client: reqwest::Client::new(), stop, data }
    }

    /// Stops in order, and fails when a task does not. What it leaves.
    pub(super) async fn end(self) -> TempDir {
        timeout(PATIENCE, self.workspace.close()).await.unwrap();
        self.stop.cancel();
        self.data
    }

    pub(super) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).header("x-api-key", "red")
    }

    /// A request without a key.
    pub(super) fn bare(&self, url: &str) -> RequestBuilder {
        self.client.get(url)
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let (status, body) = read(self.ask(Method::GET, path)).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Begins a turn without listening to it.
    pub(super) async fn begin(&self, body: Value) -> (u16, Value) {
        let request = self.ask(Method::POST, STREAM).header("content-type", "application/json");
        read(request.header("accept", "application/json").body(body.to_string())).await
    }

    /// Begins a turn and listens to it.
    pub(super) async fn say(&self, body: Value) -> Events {
        let request = self.ask(Method::POST, STREAM).header("content-type", "application/json");
        let request = request.header("accept", "text/event-stream").body(body.to_string());
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Events::new(answer)
    }

    /// Follows a turn with a key, behind an event.
    pub(super) async fn follow(&self, turn: &str, last: Option<u64>) -> Response {
        let request = self.ask(Method::GET, &format!("{STREAM}?turn={turn}"));
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        request.send().await.unwrap()
    }

    pub(super) async fn messages(&self, chat: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/assistant/conversations/{chat}/messages")).await;
        page["items"].as_array().unwrap().clone()
    }

    /// Waits until a turn has ended.
    pub(super) async fn ended(&self, turn: &str) -> Value {
        for _ in 0..1_000 {
            let row = self.get(&format!("/api/assistant/turns/{turn}")).await;
            if row["state"] != "running" {
                return row;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("turn {turn} never ends");
    }

    /// A turn without a driver, as a server leaves it that is killed.
    pub(super) async fn leave_open(&self, chat: &str) -> String {
        let now = Utc::now();
        let row = TurnRow {
            id: TurnId::from_random([1; 15]),
            chat_id: ChatId::parse(chat).unwrap(),
            workspace: "red".to_owned(),
            session_id: SessionId::from_random([1; 15]),
            user_message_id: MessageId::from_random([1; 15]),
            state: TurnState::Running,
            on_disconnect: OnDisconnect::Cancel,
            run_id: None,
            code: None,
            error: None,
            started_at: now,
            ended_at: None,
        };
        let message = MessageRow {
            id: row.user_message_id.clone(),
            chat_id: row.chat_id.clone(),
            turn_id: row.id.clone(),
            role: MessageRole::User,
            blocks: json!([]),
            attachments: json!([]),
            created_at: now,
            position: 0,
        };
        self.store.begin_turn(&row, &message, &[]).await.unwrap();
        row.id.to_string()
    }

    pub(super) async fn conversation(&self) -> String {
        let request = self.ask(Method::POST, "/api/assistant/conversations");
        let (status, body) = read(request.body(json!({}).to_string())).await;
        assert_eq!(status, 201, "{body}");
        body["id"].as_str().unwrap().to_owned()
    }
}

fn settings(store: &Store, data: &Path, url: &str, runner: &str) -> Settings {
    Settings {
        store: store.clone(),
        blobs: Blobs::disk(&data.join("blobs")).unwrap(),
        // The key is the team's name.
        keys: Keys::new(|key| Box::pin(async move { Ok(Some(Team(key))) })),
        secret: Secret::new([7; 32]),
        base_url: url.to_owned(),
        runner: RunnerAddress {
            url: runner.to_owned(),
            key: RunnerKey::Fixed(Secret::new("the key at the runner".to_owned())),
        },
        max_runtime: Duration::from_secs(600),
        bag_url_ttl: Duration::from_secs(300),
        listener_grace: Duration::ZERO,
        keep: TimeDelta::days(1),
    }
}

/// Sends a request; the status, and the body as JSON.
pub(super) async fn read(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or(Value::Null))
}

/// One event that came.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) id: u64,
    pub(super) kind: String,
    pub(super) data: Value,
}

/// A stream of events; dropping it hangs up.
pub(super) struct Events {
    answer: Response,
    decoder: sse::Decoder,
}

impl Events {
    pub(super) fn new(answer: Response) -> Events {
        Events { answer, decoder: sse::Decoder::new(16 << 20) }
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Seen> {
        loop {
            if let Some(event) = self.decoder.pop().unwrap() {
                return Some(Seen {
                    id: event.id.unwrap().parse().unwrap(),
                    kind: event.event.unwrap(),
                    data: serde_json::from_str(&event.data).unwrap(),
                });
            }
            let chunk = timeout(PATIENCE, self.answer.chunk()).await.unwrap().unwrap();
            self.decoder.push(&chunk?);
        }
    }

    /// Waits for an event of that kind.
    pub(super) async fn until(&mut self, kind: &str) -> Seen {
        loop {
            let seen = self.next().await.unwrap();
            if seen.kind == kind {
                return seen;
            }
        }
    }

    /// Everything to the end.
    pub(super) async fn rest(mut self) -> Vec<Seen> {
        let mut all = Vec::new();
        while let Some(seen) = self.next().await {
            all.push(seen);
        }
        all
    }
}
