//! What OpenCode's own server tells of sessions while it works: that a model
//! fails.
//!
//! It is heard for what it is worth: a run goes on without it.

use std::time::Duration;

use http::{Request, StatusCode};
use serde_json::Value;
use tokio::time::sleep;
use wire::sse::Decoder;

use crate::harness::acp::{Failing, Speaker};
use crate::http::{self as link_http, Answer, no_body};

/// How often the server is asked until it answers, and how soon again.
const TRIES: u32 = 20;
const EVERY: Duration = Duration::from_millis(100);
/// How long the server may take for the head of an answer. A request that comes
/// too early is never answered, so that another one has to be made.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it may have nothing to tell: longer than any run.
const SILENCE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest event that is read; after a longer one nothing is.
const EVENT_BYTES: usize = 8 << 20;
/// How many answers in a row may end without an end.
const CUT_OFF: u64 = 3;
/// What is said of a model whose answers do.
const BROKEN_OFF: &str = "the answer broke off: it ended before the model said that it was over";

/// Says what the server on that port tells, until it ends.
pub(super) async fn watch(port: u16, speaker: Speaker) {
    let Some(mut answer) = connect(port).await else { return };
    let mut decoder = Decoder::new(EVENT_BYTES);
    let mut listener = Listener::default();
    while let Ok(Some(chunk)) = answer.next_chunk(SILENCE).await {
        decoder.push(&chunk);
        loop {
            match decoder.pop() {
                Ok(Some(event)) => {
                    let Some(failing) = listener.hear(&event.data) else { continue };
                    if speaker.send(failing).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

async fn connect(port: u16) -> Option<Answer> {
    for _ in 0..TRIES {
        let request = Request::get(format!("http://127.0.0.1:{port}/event"));
        let request = request.body(no_body()).ok()?;
        match link_http::send(request, PATIENCE).await {
            Ok(answer) if answer.status == StatusCode::OK => return Some(answer),
            Ok(_) => return None,
            Err(_) => sleep(EVERY).await,
        }
    }
    None
}

/// Reads events of the server.
#[derive(Debug, Default)]
struct Listener {
    /// Answers in a row that had no end.
    cut_off: u64,
}

impl Listener {
    fn hear(&mut self, data: &str) -> Option<Failing> {
        let event: Value = serde_json::from_str(data).ok()?;
        let properties = &event["properties"];
        let failing = |attempt: u64, words: &str| {
            let session = properties["sessionID"].as_str().unwrap_or_default().to_owned();
            Some(Failing { session, attempt, words: words.to_owned() })
        };
        let (status, part) = (&properties["status"], &properties["part"]);
        match event["type"].as_str()? {
            "session.status" if status["type"] == "retry" => {
                let words = status["message"].as_str().unwrap_or("no reason given");
                failing(status["attempt"].as_u64().unwrap_or(1), words)
            }
            "message.part.updated" if part["type"] == "step-finish" => {
                // It asks again at once and for ever when an answer has no end.
                self.cut_off = if part["reason"] == "unknown" { self.cut_off + 1 } else { 0 };
                if self.cut_off >= CUT_OFF { failing(CUT_OFF, BROKEN_OFF) } else { None }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Failing, Listener};

    fn event(kind: &str, properties: Value) -> String {
        json!({"id": "evt_1", "type": kind, "properties": properties}).to_string()
    }

    #[test]
    fn a_failure_is_heard_and_nothing_else() {
        let mut listener = Listener::default();
        let status =
            |status: Value| event("session.status", json!({"sessionID": "s", "status": status}));
        let retry = json!({"type": "retry", "attempt": 2, "message": "busy", "next": 1});
        let failing = Failing { session: "s".to_owned(), attempt: 2, words: "busy".to_owned() };
        assert_eq!(listener.hear(&status(retry)), Some(failing));
        assert_eq!(listener.hear(&status(json!({"type": "idle"}))), None);
        assert_eq!(listener.hear("nothing"), None);
        assert_eq!(listener.hear("{}"), None);
    }

    #[test]
    fn answers_that_never_end_are_a_failure_in_the_end() {
        let mut listener = Listener::default();
        let mut hear = |reason: &str| {
            let part = json!({"type": "step-finish", "reason": reason});
            listener.hear(&event("message.part.updated", json!({"sessionID": "s", "part": part})))
        };
        for reason in ["unknown", "unknown", "tool-calls", "unknown", "unknown"] {
            assert_eq!(hear(reason), None, "{reason}");
        }
        assert!(matches!(hear("unknown"), Some(Failing { attempt: 3, .. })));
    }
}
