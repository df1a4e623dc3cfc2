//! A tool behind a URL of the caller's.
//!
//! ```text
//! POST url {"name", "arguments", "run_id", "call_id"}
//!   2xx application/json       the body is the result
//!   2xx application/x-ndjson   events while it executes, then the result (see `lines`)
//!   2xx text/*                 the text is the result
//!   anything else              failed, with the body's text
//! ```
//!
//! Only addresses that the operator allows are dialled; answers are bounded in
//! size and in time.

use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use bytes::BytesMut;
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};
use wire::run::{Outcome, RunId, StepId};

use super::{
    lines::{self, LineError},
    weight::Weight,
};
use crate::link::{
    addresses::Header,
    outbound::SendError,
    target::{BadTarget, Target},
    upstreams::{Note, Terms},
};

/// How much of a refusal's body is shown.
const SHOWN_CHARS: usize = 2000;

/// A call that is ready to go.
pub(super) struct Call<'a> {
    pub(super) terms: &'a Terms,
    pub(super) name: &'a str,
    /// What is posted.
    pub(super) document: String,
    pub(super) url: &'a str,
    pub(super) headers: &'a [Header],
    pub(super) timeout_ms: u64,
    pub(super) notes: &'a mpsc::Sender<Note>,
}

/// Why a tool did not return. The model reads it: it names no address.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("the address of the tool {0}")]
    Address(#[from] BadTarget),
    #[error("the server of the tool {0}")]
    Send(#[from] SendError),
    #[error("the server of the tool broke its answer off")]
    Broken,
    #[error("the server of the tool answered {status}{}{text}", if .text.is_empty() { "" } else { ": " })]
    Status { status: StatusCode, text: String },
    #[error("the answer of the tool has more than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the answer of the tool is not JSON")]
    NotJson,
    #[error("the answer of the tool holds too many values, or too many within each other")]
    TooHeavy,
    #[error("the tool answered with `{0}`, which is neither JSON nor NDJSON nor text")]
    Kind(String),
    #[error(transparent)]
    Lines(#[from] LineError),
    #[error("timed out after {0} ms")]
    Timeout(u64),
}

/// What a tool's server is told of a call.
pub(super) fn document(name: &str, arguments: &Value, run: Option<&RunId>, id: &StepId) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        name: &'a str,
        arguments: &'a Value,
        run_id: Option<&'a RunId>,
        call_id: &'a StepId,
    }
    let document = Document { name, arguments, run_id: run, call_id: id };
    // Every key is a string and every number is finite, so this cannot fail.
    serde_json::to_string(&document).unwrap_or_default()
}

/// Executes the call. Dropping the future hangs up on the tool's server.
pub(super) async fn execute(call: Call<'_>) -> Outcome {
    let timeout_ms = call.timeout_ms;
    let returned = match timeout(Duration::from_millis(timeout_ms), call.send()).await {
        Ok(returned) => returned,
        Err(_) => Err(CallError::Timeout(timeout_ms)),
    };
    match returned {
        Ok(result) => Outcome::Succeeded { result, truncated: false },
        Err(err) => Outcome::Failed { error: err.to_string(), result: None },
    }
}

impl Call<'_> {
    async fn send(mut self) -> Result<Value, CallError> {
        let target = Target::parse(self.url)?;
        let mut headers: HeaderMap = self.headers.iter().filter_map(Header::pair).collect();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let accepted = "application/json, application/x-ndjson, text/plain";
        headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
        let body = reqwest::Body::from(std::mem::take(&mut self.document));
        let answer = self.terms.outbound.send(Method::POST, &target, headers, Some(body)).await;
        let answer = answer.inspect_err(|err| {
            tracing::debug!("tool {}: {err}: {:?}", self.name, std::error::Error::source(err));
        })?;
        self.read(answer).await
    }

    async fn read(&self, answer: Response<reqwest::Body>) -> Result<Value, CallError> {
        let limit = self.terms.limits.tool_result_bytes;
        let (head, body) = answer.into_parts();
        let kind = kind(&head.headers);
        if !head.status.is_success() {
            // The beginning says what is wrong; an endless body is not read to its end.
            let text = beginning(body).await;
            return Err(CallError::Status { status: head.status, text });
        }
        match kind.as_str() {
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => {
                Ok(lines::read(body, limit, self.notes).await?)
            }
            "text/html" => Err(CallError::Kind(kind)),
            "" | "application/json" => {
                let bytes = whole(body, limit).await?;
                if bytes.iter().all(u8::is_ascii_whitespace) {
                    return Ok(Value::Null);
                }
                parsed(&bytes)
            }
            text if text.starts_with("text/") => {
                let bytes = whole(body, limit).await?;
                Ok(Value::String(String::from_utf8_lossy(&bytes).into_owned()))
            }
            other if other.ends_with("+json") => {
                let bytes = whole(body, limit).await?;
                parsed(&bytes)
            }
            _ => Err(CallError::Kind(kind.chars().take(100).collect())),
        }
    }
}

fn parsed(bytes: &[u8]) -> Result<Value, CallError> {
    if !Weight::of(bytes).is_bearable() {
        return Err(CallError::TooHeavy);
    }
    serde_json::from_slice(bytes).map_err(|_| CallError::NotJson)
}

async fn whole(mut body: reqwest::Body, limit: u64) -> Result<BytesMut, CallError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| CallError::Broken)?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() as u64 > limit {
            return Err(CallError::TooLarge { limit });
        }
    }
    Ok(bytes)
}

async fn beginning(mut body: reqwest::Body) -> String {
    let mut bytes = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > 4 * SHOWN_CHARS {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    text.trim().chars().take(SHOWN_CHARS).collect()
}

fn kind(headers: &HeaderMap) -> String {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}
