//! A runner on a port of its own, and a client for it.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::TimeDelta;
use http_kit::{Keys, Team};
use isolate::Tier;
use reqwest::{Client, RequestBuilder, Response};
use runner::{Runner, Settings, link::AddressPolicy};
use sandbox::{Closing, Sandboxes};
use serde_json::{Value, json};
use store::Store;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use wire::{
    Secret,
    run::{EnvelopeChecker, EnvelopeLine},
};

/// The log as it is.
pub(crate) const RAW: &str = "application/vnd.mayfly.run+ndjson";
const GRACE: Duration = Duration::from_secs(10);

/// What differs between tests.
pub(crate) struct Plan {
    pub(crate) tier: Tier,
    pub(crate) max_sandboxes: usize,
    pub(crate) max_runtime: Duration,
    pub(crate) file_hook: Option<String>,
}

impl Plan {
    pub(crate) const PLAIN: Plan = Plan {
        tier: Tier::Process,
        max_sandboxes: 50,
        max_runtime: Duration::from_secs(60),
        file_hook: None,
    };
}

/// A server and the data it keeps.
pub(crate) struct TestServer {
    address: SocketAddr,
    client: Client,
    runner: Runner,
    pub(crate) sandboxes: Sandboxes,
    store: Store,
    stop: CancellationToken,
}

/// A directory that outlives servers.
pub(crate) fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A program that cargo or xtask built, beside this test's own directory.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let executable = std::env::current_exe().unwrap();
    let path = executable.parent()?.parent()?.join(name);
    if !path.exists() {
        println!("skipped: there is no {name}; build it with `cargo xtask build`");
        return None;
    }
    Some(path)
}

/// Writes an agent made of shell. It reads its task first, as every agent does.
pub(crate) fn agent(place: &Path, script: &str) -> PathBuf {
    let path = place.join("agent.sh");
    let functions = "n=0\n\
        say() { n=$((n+1)); printf '{\"n\":%d,\"ts\":%d000,%s}\\n' \"$n\" \"$(date +%s)\" \"$1\"; }\n\
        result() { say \"\\\"type\\\":\\\"result\\\",\\\"message\\\":\\\"$1\\\"\"; }\n\
        log() { say \"\\\"type\\\":\\\"log\\\",\\\"level\\\":\\\"info\\\",\\\"message\\\":\\\"$1\\\"\"; }\n\
        step() { say \"\\\"type\\\":\\\"step_started\\\",\\\"id\\\":\\\"step_$1\\\",\\\"name\\\":\\\"shell\\\",\\\"args\\\":{}\"; }\n\
        done_step() { say \"\\\"type\\\":\\\"step_ended\\\",\\\"id\\\":\\\"step_$1\\\",\\\"status\\\":\\\"succeeded\\\",\\\"result\\\":1,\\\"duration_ms\\\":1\"; }\n";
    fs::write(&path, format!("#!/bin/sh\ntask=$(cat)\n{functions}{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

impl TestServer {
    /// A server in `place` whose runs are done by `agent`; `None` when this host
    /// does not have what it takes.
    pub(crate) async fn start(place: &Path, agent: PathBuf, plan: Plan) -> Option<TestServer> {
        let (envd, keeper) = (program("mayfly-envd")?, program("mayfly-keeper")?);
        if plan.tier.has_walls() && !is_root() {
            println!("skipped: tier {} needs root", plan.tier);
            return None;
        }
        let store = Store::open(&place.join("data")).await.unwrap();
        let settings = sandbox::Settings {
            directory: place.join("data/sandboxes"),
            templates: place.join("data/templates"),
            tier: plan.tier,
            envd,
            keeper,
            agent: Some(agent),
            agent_layers: place.join("data/agents"),
            jexec: None,
            max_sandboxes: plan.max_sandboxes,
            disk_mib: 0,
            pool: 0,
            wired: None,
        };
        let sandboxes = Sandboxes::open(settings, store.clone()).await.unwrap();
        let runner = Runner::open(Settings {
            directory: place.join("data/runs"),
            sandboxes: sandboxes.clone(),
            store: store.clone(),
            keys: Keys::new(|key| Box::pin(async move { Ok(Some(Team(key))) })),
            max_runtime: plan.max_runtime,
            keep: TimeDelta::days(7),
            addresses: AddressPolicy::Standard,
            seal_key: Secret::new([7; 32]),
            file_hook: plan.file_hook.clone(),
            model: None,
        })
        .await
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (router, _) = runner::router(runner.clone());
        tokio::spawn(http_kit::serve(listener, router, stop.clone(), GRACE));
        let client = Client::builder().no_proxy().build().unwrap();
        Some(TestServer { address, client, runner, sandboxes, store, stop })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path)).header("x-api-key", "red")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(self.url(path)).header("x-api-key", "red").body(body.to_string())
    }

    /// Dispatches an inline run.
    pub(crate) async fn dispatch(&self, changes: Value) -> Response {
        self.post("/stream", &inline(changes)).send().await.unwrap()
    }

    /// A whole answer, which has to be a good one.
    pub(crate) async fn read(&self, path: &str) -> String {
        let response = self.get(path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.text().await.unwrap()
    }

    pub(crate) async fn info(&self, id: &str) -> Value {
        serde_json::from_str(&self.read(&format!("/runs/{id}")).await).unwrap()
    }

    /// Follows a run to its end and gives the raw log.
    pub(crate) async fn raw(&self, id: &str) -> Vec<Value> {
        let request = self.get(&format!("/runs/{id}/stream")).header("accept", RAW);
        json_lines(&request.send().await.unwrap().text().await.unwrap())
    }

    /// Stops in order, as on SIGINT or SIGTERM.
    pub(crate) async fn stop(self, closing: Closing) {
        self.runner.close(closing, GRACE).await;
        self.sandboxes.close(closing, GRACE).await;
        self.stop.cancel();
        self.store.close().await;
    }

    /// Ends everything, and finds nothing left.
    pub(crate) async fn end(self) {
        assert_eq!(self.sandboxes.count(), 0, "sandboxes are left");
        self.stop(Closing::Destroy).await;
    }
}

/// A dispatch that needs no workspace, with some fields replaced.
pub(crate) fn inline(changes: Value) -> Value {
    let mut body = json!({"prompt": "hello", "config": {}});
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body
}

/// The name of the run that an answer streams.
pub(crate) fn run_id(response: &Response) -> String {
    response.headers()["x-mayfly-run-id"].to_str().unwrap().to_owned()
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Lines of the envelope, checked by the caller's own rules. Gives the last.
#[track_caller]
pub(crate) fn check_envelope(text: &str) -> Value {
    let mut checker = EnvelopeChecker::new();
    for line in text.split_inclusive('\n') {
        let line = EnvelopeLine::parse(line.as_bytes()).unwrap();
        checker.check(&line).unwrap();
    }
    checker.finish().unwrap();
    json_lines(text).pop().unwrap()
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
