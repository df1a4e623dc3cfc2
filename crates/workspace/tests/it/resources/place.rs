//! A workspace on a free port, with what it keeps in a directory that the test
//! can look into.

use std::path::Path;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use http_kit::{Keys, Team};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::{Blobs, NewBearer, NewOtp, OtpKind, SessionCaller, SessionRow, Store};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use wire::Secret;
use wire::workspace::{ExecutionId, ResourceId, ResourceKind, SessionId};
use workspace::{RunnerAddress, RunnerKey, Settings, Workspace};

pub(super) struct Place {
    pub(super) base: String,
    data: TempDir,
    store: Store,
    client: reqwest::Client,
    workspace: Workspace,
    stop: CancellationToken,
}

impl Place {
    pub(super) async fn start() -> Place {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open(data.path()).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let workspace = Workspace::new(Settings {
            store: store.clone(),
            blobs: Blobs::disk(&data.path().join("blobs")).unwrap(),
            // The key is the team's name.
            keys: Keys::new(|key| Box::pin(async move { Ok(Some(Team(key))) })),
            secret: Secret::new([7; 32]),
            base_url: base.clone(),
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
        Place { base, data, store, client: reqwest::Client::new(), workspace, stop }
    }

    /// Stops, and fails when a task does not.
    pub(super) async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(10), self.workspace.close()).await.unwrap();
    }

    pub(super) fn data(&self) -> &Path {
        self.data.path()
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    /// Asks with the key of the team `red`.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.ask_as("red", method, path, body).await
    }

    pub(super) async fn ask_as(
        &self,
        team: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let mut request = self.request(method, path).header("x-api-key", team);
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        answer(request).await
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, Value::Null).await
    }

    /// Makes something and gives its id.
    pub(super) async fn make(&self, path: &str, body: Value) -> String {
        let (status, made) = self.ask(Method::POST, path, body).await;
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    /// A dispatch of an agent by a workflow: its run token is `otp_run`, its
    /// setup token `otp_setup`, its bearer `asbx_` and its id.
    pub(super) async fn session(&self, agent: Option<&str>) -> SessionId {
        let id = SessionId::from_random(std::array::from_fn(|_| rand::random()));
        let now = Utc::now();
        let row = SessionRow {
            id: id.clone(),
            workspace: "red".to_owned(),
            caller: SessionCaller::Agents,
            scope: ExecutionId::from_random(std::array::from_fn(|_| rand::random())).to_string(),
            work: "writer".to_owned(),
            brief: json!({"agentId": agent, "environmentId": null}),
            created_at: now,
            settled_at: None,
        };
        let expires_at = now + TimeDelta::minutes(10);
        let otps = [("otp_setup", OtpKind::Setup), ("otp_run", OtpKind::Run)]
            .map(|(otp, kind)| NewOtp { hash: hash(&format!("{otp}{id}")), kind, expires_at });
        let bearer = NewBearer { hash: hash(&format!("asbx_{id}")), expires_at };
        self.store.open_session(&row, &otps, &bearer).await.unwrap();
        id
    }

    /// Takes a resource away behind the API's back, as a race would.
    pub(super) async fn forget(&self, kind: ResourceKind, id: &str) {
        let id = ResourceId::parse(kind, id).unwrap();
        assert!(self.store.delete_resource("red", kind, &id).await.unwrap());
    }

    /// What the sandbox of that dispatch is told.
    pub(super) async fn callback(&self, session: &SessionId, name: &str) -> (u16, Value) {
        let otp = if name == "env" { "otp_setup" } else { "otp_run" };
        let path = format!("/api/agents/sandbox/{session}/{name}");
        let request = self.request(Method::GET, &path);
        answer(request.header("authorization", format!("{otp}{session}"))).await
    }
}

/// Sends a request: the status, and the body when it is JSON.
pub(super) async fn answer(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default())
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Fails unless the answer is a refusal of that status, code and field.
#[track_caller]
pub(super) fn refused((status, body): &(u16, Value), expected: u16, code: &str, field: &str) {
    let found =
        (*status, body["code"].as_str().unwrap_or(""), body["field"].as_str().unwrap_or(""));
    assert_eq!(found, (expected, code, field), "{body}");
}
