//! The client of runners: dispatches, follows and cancels runs over HTTP.
//!
//! Hanging up is how a run is cancelled that was not set to continue: whoever
//! drops a `Running` hangs up. Nothing here is tried again; whether that makes
//! sense is the caller's to know.

mod lines;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode, header};
use serde::{Serialize, Serializer};
use serde_json::Value;
use store::OnDisconnect;
use wire::{Secret, agent::Harness};

use crate::settings::RunnerAddress;

pub(crate) use lines::{Lines, LinesError};

/// How long a runner may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may take to answer a dispatch: it starts a sandbox before it does.
const ANSWER: Duration = Duration::from_secs(120);
/// A peer that is gone without a word is noticed after about this long.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Bytes of a refusal that are looked at, and how long they may take.
const COMPLAINT: usize = 4 << 10;
const COMPLAINT_TIME: Duration = Duration::from_secs(2);
/// The log as it is, which runners of ours have.
const RAW: &str = "application/vnd.mayfly.run+ndjson";
/// Seed 000's lines, which every runner has.
const ENVELOPE: &str = "application/x-ndjson";
/// How a runner of ours names the run.
const RUN_ID: &str = "x-mayfly-run-id";

/// The client. Clones share their connections.
#[derive(Clone, Debug)]
pub(crate) struct RunnerClient {
    /// Without TLS there is no client; dispatches then say so.
    client: Result<reqwest::Client, String>,
}

/// The body of `POST /stream`.
#[derive(Debug, Serialize)]
pub(crate) struct DispatchBody {
    pub(crate) agent_url: String,
    #[serde(with = "wire::exposed")]
    pub(crate) otp_setup: Secret<String>,
    #[serde(with = "wire::exposed")]
    pub(crate) otp_run: Secret<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose")]
    pub(crate) otp_upload: Option<Secret<String>>,
    pub(crate) prompt: String,
    /// The conversation; a dispatch of an Agents block has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chat_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<String>,
    /// What runs the loop; the runner's own when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) harness: Option<Harness>,
    #[serde(serialize_with = "name_of")]
    pub(crate) on_disconnect: OnDisconnect,
}

/// What is asked for. A runner that has no raw log gives the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Raw,
    Envelope,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Raw,
    Envelope,
}

/// A run that is being heard. Dropping it hangs up.
#[derive(Debug)]
pub(crate) struct Running {
    /// What the runner calls it, if it does.
    pub(crate) run_id: Option<String>,
    pub(crate) format: Format,
    pub(crate) lines: Lines,
}

/// Why a runner did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DispatchError {
    #[error("no HTTP client could be made: {0}")]
    NoClient(String),
    #[error("the dispatch cannot be written down")]
    Unwritable(#[source] serde_json::Error),
    #[error("the sandbox runner at {url} cannot be reached; start it, or correct SANDBOX_URL")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("the sandbox runner at {url} did not answer within {} s", ANSWER.as_secs())]
    Late { url: String },
    #[error(
        "the sandbox runner refused our API key ({status}); set SANDBOX_API_KEY to one it knows"
    )]
    NoKey { status: StatusCode },
    #[error("the sandbox runner has no room now ({status}): {message}; try again later")]
    NoRoom { status: StatusCode, message: String },
    #[error("the sandbox runner refused ({status}): {message}")]
    Refused { status: StatusCode, message: String },
    #[error("{url} is no sandbox runner: it answered with {content_type:?}; correct SANDBOX_URL")]
    NoStream { url: String, content_type: String },
}

impl RunnerClient {
    pub(crate) fn new() -> RunnerClient {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .tcp_keepalive(KEEPALIVE)
            // One-time tokens go where the operator said, and nowhere else.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build();
        RunnerClient { client: client.map_err(|err| err.to_string()) }
    }

    /// Starts a run and listens to it.
    pub(crate) async fn dispatch(
        &self,
        runner: &RunnerAddress,
        workspace: &str,
        body: &DispatchBody,
        wanted: Wanted,
    ) -> Result<Running, DispatchError> {
        let accept = match wanted {
            // Whoever does not know the first gives the second.
            Wanted::Raw => format!("{RAW}, {ENVELOPE};q=0.9"),
            Wanted::Envelope => ENVELOPE.to_owned(),
        };
        let request = self.request(runner, workspace, Method::POST, "/stream")?;
        let body = serde_json::to_vec(body).map_err(DispatchError::Unwritable)?;
        let request = request
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body);
        running(runner, send(runner, request).await?)
    }

    /// Listens to a run that was dispatched before, behind entry `after`.
    pub(crate) async fn follow(
        &self,
        runner: &RunnerAddress,
        workspace: &str,
        run_id: &str,
        after: u64,
    ) -> Result<Running, DispatchError> {
        let path = format!("/runs/{run_id}/stream?after={after}");
        let request = self.request(runner, workspace, Method::GET, &path)?;
        let answer = send(runner, request.header(header::ACCEPT, RAW)).await?;
        let running = running(runner, answer)?;
        Ok(Running { run_id: Some(run_id.to_owned()), ..running })
    }

    /// Ends a run; returns when nothing is left of it but its log.
    pub(crate) async fn cancel(
        &self,
        runner: &RunnerAddress,
        workspace: &str,
        run_id: &str,
    ) -> Result<(), DispatchError> {
        let path = format!("/runs/{run_id}/cancel");
        let request = self.request(runner, workspace, Method::POST, &path)?;
        send(runner, request).await.map(drop)
    }

    fn request(
        &self,
        runner: &RunnerAddress,
        workspace: &str,
        method: Method,
        path: &str,
    ) -> Result<RequestBuilder, DispatchError> {
        let client = self.client.as_ref().map_err(|err| DispatchError::NoClient(err.clone()))?;
        let request = client.request(method, format!("{}{path}", runner.url));
        Ok(match runner.key.for_workspace(workspace) {
            Some(key) => {
                let mut value = header::HeaderValue::from_str(key.expose())
                    .map_err(|_| DispatchError::NoKey { status: StatusCode::UNAUTHORIZED })?;
                value.set_sensitive(true);
                request.header("x-api-key", value)
            }
            None => request,
        })
    }
}

async fn send(runner: &RunnerAddress, request: RequestBuilder) -> Result<Response, DispatchError> {
    let url = || runner.url.clone();
    let answer = tokio::time::timeout(ANSWER, request.send()).await;
    let answer = answer.map_err(|_| DispatchError::Late { url: url() })?;
    let answer = answer.map_err(|source| DispatchError::Unreachable { url: url(), source })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let message = complaint(answer).await;
    Err(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => DispatchError::NoKey { status },
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            DispatchError::NoRoom { status, message }
        }
        _ => DispatchError::Refused { status, message },
    })
}

fn running(runner: &RunnerAddress, answer: Response) -> Result<Running, DispatchError> {
    let text = |name: &str| answer.headers().get(name)?.to_str().ok().map(str::to_owned);
    let content_type = text(header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let format = match essence.as_str() {
        RAW => Format::Raw,
        ENVELOPE => Format::Envelope,
        _ => return Err(DispatchError::NoStream { url: runner.url.clone(), content_type }),
    };
    // It becomes part of an address, so it has to look like one of ours.
    let run_id = text(RUN_ID).filter(|id| wire::run::RunId::parse(id).is_ok());
    Ok(Running { run_id, format, lines: Lines::new(answer) })
}

/// What a refusal says: the message of our faults, or its first bytes. One that
/// does not come to its end is not waited for.
async fn complaint(mut answer: Response) -> String {
    let mut text = Vec::new();
    let reading = async {
        while text.len() < COMPLAINT
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            text.extend_from_slice(&chunk);
        }
    };
    // What has come by then is looked at all the same.
    let _ = tokio::time::timeout(COMPLAINT_TIME, reading).await;
    text.truncate(COMPLAINT);
    let message = serde_json::from_slice::<Value>(&text).ok();
    let message = message.and_then(|fault| Some(fault.get("message")?.as_str()?.to_owned()));
    message.unwrap_or_else(|| String::from_utf8_lossy(&text).trim().to_owned())
}

fn expose<S: Serializer>(secret: &Option<Secret<String>>, into: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(Secret::expose).serialize(into)
}

fn name_of<S: Serializer>(on_disconnect: &OnDisconnect, into: S) -> Result<S::Ok, S::Error> {
    into.serialize_str(on_disconnect.name())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::timeout,
    };

    use super::{DispatchError, RunnerClient};
    use crate::settings::{RunnerAddress, RunnerKey};

    #[tokio::test]
    async fn a_refusal_that_never_ends_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let runner = RunnerAddress { url, key: RunnerKey::None };
        let client = RunnerClient::new();
        let refusal = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            assert!(connection.read(&mut [0; 1024]).await.unwrap() > 0);
            let head = "HTTP/1.1 500 Oh\r\ncontent-length: 99\r\n\r\nNo";
            connection.write_all(head.as_bytes()).await.unwrap();
            connection
        };
        let asked = async { tokio::join!(client.cancel(&runner, "red", "run_1"), refusal).0 };
        let refused = timeout(Duration::from_secs(20), asked).await.unwrap();
        let message = match refused {
            Err(DispatchError::Refused { message, .. }) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(message, "No");
    }
}
