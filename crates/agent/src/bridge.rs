//! The caller's tools, asked for over the host link.
//!
//! The host executes them and books their steps, from the moment it is asked:
//! nobody in here tells a step of theirs. It speaks MCP to everybody; a single
//! message is all that a call needs, and by a field of its own the answer is the
//! outcome as the log has it.

use std::time::Duration;

use http::{Request, header};
use serde_json::{Map, Value, json};
use wire::run::Outcome;

use crate::{
    emit::Emitter,
    http::{self as link, HttpError, whole_body},
    model::ToolSpec,
    session::Session,
};

/// The field that asks for the outcome, and the one that has it.
const OUTCOME: &str = "mayfly/outcome";
/// The field that says how many lines were written before the call.
const LINE: &str = "mayfly/line";
/// Largest answer: a result of a MiB, however it is written.
const ANSWER: u64 = 16 << 20;
/// How long the host is waited for. It knows how long each tool may take, and
/// what a run may.
const PATIENCE: Duration = Duration::from_secs(28_860);

/// Why there is no outcome of a call.
#[derive(Debug, thiserror::Error)]
enum BridgeError {
    #[error("the tool cannot be reached: {0}")]
    Ask(#[from] HttpError),
    #[error("the tool cannot be asked for: {0}")]
    Request(#[from] ::http::Error),
    #[error("the host refused the call: {0}")]
    Refused(String),
}

/// Whether the caller gave a tool of that name.
pub(crate) fn offers(session: &Session, name: &str) -> bool {
    session.tools.iter().any(|tool| tool.name == name)
}

/// The caller's tools as a model sees them.
pub(crate) fn specs(session: &Session) -> impl Iterator<Item = ToolSpec> {
    session.tools.iter().map(|tool| ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        schema: tool.parameters.clone(),
    })
}

/// Has the host execute a tool. What was told so far comes before it in the log.
/// Dropping the future interrupts it.
pub(crate) async fn call(
    session: &Session,
    out: &Emitter,
    name: &str,
    arguments: &Map<String, Value>,
) -> Outcome {
    match ask(session, out, name, arguments).await {
        Ok(outcome) => outcome,
        Err(err) => Outcome::Failed { error: err.to_string(), result: None },
    }
}

async fn ask(
    session: &Session,
    out: &Emitter,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<Outcome, BridgeError> {
    let meta = json!({OUTCOME: true, LINE: out.written()});
    let params = json!({"name": name, "arguments": arguments, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = Request::post(session.bridge.url.as_str())
        .header(header::AUTHORIZATION, format!("Bearer {}", session.bridge.bearer.expose()))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .body(whole_body(message.to_string()))?;
    let answer = link::send(request, PATIENCE).await?;
    let status = answer.status;
    let body = answer.read_whole(ANSWER, PATIENCE).await?;
    read(&body).ok_or_else(|| {
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let words = body["error"]["message"].as_str().map(str::to_owned);
        BridgeError::Refused(words.unwrap_or_else(|| format!("it answered {status}")))
    })
}

fn read(body: &[u8]) -> Option<Outcome> {
    let mut answer: Value = serde_json::from_slice(body).ok()?;
    let outcome = answer.get_mut("result")?.get_mut("_meta")?.get_mut(OUTCOME)?;
    serde_json::from_value(outcome.take()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::run::Outcome;

    use super::read;

    #[test]
    fn an_outcome_is_read_as_it_was_booked() {
        let check = |outcome: serde_json::Value, expected: Option<Outcome>| {
            let answer = json!({"result": {"_meta": {"mayfly/outcome": outcome}}});
            assert_eq!(read(answer.to_string().as_bytes()), expected);
        };
        let succeeded = Outcome::Succeeded { result: json!("5"), truncated: false };
        check(json!({"status": "succeeded", "result": "5"}), Some(succeeded));
        check(json!({"status": "deferred"}), Some(Outcome::Deferred));
        check(json!({"status": "else"}), None);
        check(json!(null), None);
        assert_eq!(read(b"{}"), None);
        for other in [&b"["[..], b"[]", b"1", br#"{"result":[]}"#] {
            assert_eq!(read(other), None);
        }
    }
}
