//! A workspace on a free port, with what it keeps in a directory that the test
//! can look into.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use http_kit::{Keys, Team};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::{Blobs, ConversationRow, NewBearer, NewOtp, OtpKind, SessionCaller, SessionRow, Store};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use wire::{
    Secret,
    workspace::{ChatId, SessionId},
};
use workspace::{RunnerAddress, RunnerKey, Settings, Workspace};

pub(super) struct Scene {
    pub(super) data: TempDir,
    pub(super) store: Store,
    pub(super) address: SocketAddr,
    client: reqwest::Client,
    workspace: Workspace,
    stop: CancellationToken,
}

impl Scene {
    pub(super) async fn start() -> Scene {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open(data.path()).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let workspace = Workspace::new(Settings {
            store: store.clone(),
            blobs: Blobs::disk(&data.path().join("blobs")).unwrap(),
            // The key is the team's name.
            keys: Keys::new(|key| Box::pin(async move { Ok(Some(Team(key))) })),
            secret: Secret::new([7; 32]),
            base_url: format!("http://{address}"),
            runner: RunnerAddress { url: "http://127.0.0.1:9".to_owned(), key: RunnerKey::None },
            max_runtime: Duration::from_secs(600),
            bag_url_ttl: Duration::from_secs(300),
            listener_grace: Duration::ZERO,
            keep: TimeDelta::days(1),
        });
        let stop = CancellationToken::new();
        let (router, _) = workspace::router(workspace.clone());
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            axum::serve(listener, router).with_graceful_shutdown(stopped).await.unwrap();
        });
        let client = reqwest::Client::new();
        Scene { data, store, address, client, workspace, stop }
    }

    /// Stops, and fails when a task does not. What is left of it.
    pub(super) async fn end(self) -> TempDir {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(10), self.workspace.close()).await.unwrap();
        self.data
    }

    pub(super) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("http://{}{path}", self.address));
        request.header("x-api-key", "red")
    }

    /// A request without a key.
    pub(super) fn bare(&self, method: Method, url: &str) -> RequestBuilder {
        let url = if url.starts_with('/') {
            format!("http://{}{url}", self.address)
        } else {
            url.to_owned()
        };
        self.client.request(method, url)
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        read(self.ask(Method::GET, path).send().await.unwrap()).await
    }

    /// A conversation of the team `red`.
    pub(super) async fn chat(&self) -> ChatId {
        let id = ChatId::from_random(std::array::from_fn(|_| rand::random()));
        let now = Utc::now();
        let row = ConversationRow {
            id: id.clone(),
            workspace: "red".to_owned(),
            title: String::new(),
            agent_id: None,
            created_at: now,
            updated_at: now,
            deleted_at: None,
        };
        self.store.create_conversation(&row).await.unwrap();
        id
    }

    /// A dispatch for that conversation, whose tokens are the kinds' names.
    pub(super) async fn session(&self, chat: &ChatId) -> SessionId {
        let id = SessionId::from_random(std::array::from_fn(|_| rand::random()));
        let now = Utc::now();
        let row = SessionRow {
            id: id.clone(),
            workspace: "red".to_owned(),
            caller: SessionCaller::Assistant,
            scope: chat.to_string(),
            work: "turn_aaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
            brief: serde_json::json!({}),
            created_at: now,
            settled_at: None,
        };
        let expires_at = now + TimeDelta::minutes(10);
        let otps = [("otp_run", OtpKind::Run), ("otp_upload", OtpKind::Upload)];
        let otps = otps.map(|(token, kind)| NewOtp { hash: hash(token, &id), kind, expires_at });
        let bearer = NewBearer { hash: hash("asbx_", &id), expires_at };
        self.store.open_session(&row, &otps, &bearer).await.unwrap();
        id
    }

    /// Uploads one form to the bag.
    pub(super) async fn upload(&self, chat: &ChatId, files: &[(&str, &[u8])]) -> (u16, Value) {
        let path = format!("/api/assistant/conversations/{chat}/files");
        read(form(self.ask(Method::POST, &path), files).send().await.unwrap()).await
    }

    /// The names in the bag.
    pub(super) async fn names(&self, chat: &ChatId) -> Vec<String> {
        let path = format!("/api/assistant/conversations/{chat}/files?limit=200");
        let (status, page) = self.get(&path).await;
        assert_eq!(status, 200, "{page}");
        let names = page["items"].as_array().unwrap().iter();
        names.map(|file| file["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Every blob on disk, unfinished ones too.
    pub(super) fn blobs(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut directories = vec![self.data.path().join("blobs")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { directories.push(path) } else { found.push(path) }
            }
        }
        found
    }
}

/// The token of that name and that session.
pub(super) fn token(name: &str, session: &SessionId) -> String {
    format!("{name}_{session}")
}

fn hash(name: &str, session: &SessionId) -> [u8; 32] {
    Sha256::digest(token(name, session)).into()
}

/// A form with a part named `file` for each.
pub(super) fn form(request: RequestBuilder, files: &[(&str, &[u8])]) -> RequestBuilder {
    let mut body = Vec::new();
    for (name, content) in files {
        let head = format!(
            "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: text/x-lie\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    request.header("content-type", "multipart/form-data; boundary=XX").body(body)
}

pub(super) async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}
