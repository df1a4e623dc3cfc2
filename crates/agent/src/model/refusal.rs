//! What a provider says when it does not answer: the body of a bad status, or
//! an `error` in the stream.

use serde_json::Value;

/// Longest message that is kept.
const MESSAGE_CHARS: usize = 500;

/// Kinds of errors that are over after a while, in all dialects.
const PASSING: &[&str] = &[
    "api_error",
    "overloaded_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "server_error",
    "timeout_error",
];

/// A provider's own account of why it does not answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// `error.type`, where there is one.
    pub(super) kind: Option<String>,
    pub(super) message: String,
}

impl Refusal {
    /// Reads a body in whatever shape it has.
    pub(super) fn from_body(body: &[u8]) -> Refusal {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Refusal::from_value(&value),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                Refusal { kind: None, message: said(text.trim()) }
            }
        }
    }

    /// Reads `{"error": {"type", "message"}}`, `{"error": "…"}`, `{"message": "…"}`.
    pub(super) fn from_value(value: &Value) -> Refusal {
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let text = |field: &str| error.get(field).and_then(Value::as_str);
        // In a stream the type of the event itself may be `error`.
        let kind = text("type").filter(|kind| *kind != "error").or_else(|| text("code"));
        let kind = kind.map(str::to_owned);
        let message = match (text("message"), error) {
            (Some(message), _) => said(message),
            (None, Value::String(message)) => said(message),
            (None, other) => said(&other.to_string()),
        };
        Refusal { kind, message }
    }

    /// The message with its kind, as people should read it.
    pub(super) fn shown(&self) -> String {
        match &self.kind {
            Some(kind) => format!("{} ({kind})", self.message),
            None => self.message.clone(),
        }
    }

    /// Whether the same question may be answered in a while.
    pub(super) fn passes(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| PASSING.contains(&kind))
    }
}

fn said(message: &str) -> String {
    if message.is_empty() {
        return "it said nothing".to_owned();
    }
    let mut kept: String = message.chars().take(MESSAGE_CHARS).collect();
    if kept.len() < message.len() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[track_caller]
    fn check(body: &str, expected: &str) {
        assert_eq!(Refusal::from_body(body.as_bytes()).shown(), expected, "{body}");
    }

    #[test]
    fn refusals_are_read_in_every_shape() {
        check(
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "Overloaded (overloaded_error)",
        );
        check(
            r#"{"error":{"message":"no such model","type":"invalid_request_error","code":null}}"#,
            "no such model (invalid_request_error)",
        );
        check(r#"{"error":"model not found"}"#, "model not found");
        check(r#"{"message":"Not Found"}"#, "Not Found");
        check(r#"{"detail":"x"}"#, r#"{"detail":"x"}"#);
        check("<html>bad gateway</html>", "<html>bad gateway</html>");
        check("", "it said nothing");
        assert!(Refusal::from_body("é".repeat(900).as_bytes()).message.chars().count() == 501);
    }
}
