//! The framing of the protocol: JSON-RPC 2.0, one message a line.

use serde_json::{Value, json};

/// A line of the CLI.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    /// It answers what we asked under that number.
    Answer { id: u64, answer: Result<Value, Refusal> },
    /// It asks us something.
    Question { id: Value, method: String, params: Value },
    /// It tells us something.
    Notice { method: String, params: Value },
}

/// Why the CLI did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i64,
    /// The words that say most.
    pub(super) words: String,
}

impl Incoming {
    /// Reads a line. What is no message of the protocol is none: CLIs print
    /// other things too.
    pub(super) fn parse(line: &str) -> Option<Incoming> {
        let Ok(Value::Object(mut message)) = serde_json::from_str(line) else { return None };
        let mut take = |field: &str| message.remove(field).unwrap_or_default();
        let (id, params) = (take("id"), take("params"));
        if let Value::String(method) = take("method") {
            if id.is_null() {
                return Some(Incoming::Notice { method, params });
            }
            return Some(Incoming::Question { id, method, params });
        }
        let (result, error) = (take("result"), take("error"));
        let answer = if error.is_null() { Ok(result) } else { Err(Refusal::of(&error)) };
        Some(Incoming::Answer { id: id.as_u64()?, answer })
    }
}

impl Refusal {
    /// An error of JSON-RPC that says that the question itself was wrong.
    const BAD_PARAMETERS: i64 = -32602;

    /// Whether what was asked was wrong, and not what it led to.
    pub(super) fn blames_us(&self) -> bool {
        self.code == Refusal::BAD_PARAMETERS
    }

    /// One CLI says what happened in `message`, another in `data`, or in the
    /// `message` of `data`.
    fn of(error: &Value) -> Refusal {
        let message = error["message"].as_str().unwrap_or("an error without a message");
        let data = &error["data"];
        let told = data.as_str().or(data["message"].as_str()).unwrap_or(message);
        let words = told.strip_prefix("Internal error: ").unwrap_or(told);
        // Grok Build adds a list of what it is set up with.
        let words = words.split("\n\n  Model:").next().unwrap_or(words).trim();
        Refusal { code: error["code"].as_i64().unwrap_or_default(), words: words.to_owned() }
    }
}

/// The line that asks the CLI something.
pub(super) fn question(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// The line that answers the CLI.
pub(super) fn answer(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// The line that tells the CLI that we do not do what it asks.
pub(super) fn not_offered(id: &Value, method: &str) -> String {
    let message = format!("`{method}` is not offered");
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": message}}).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Incoming, Refusal, answer, not_offered, question};

    #[test]
    fn questions_answers_and_notices_are_told_apart() {
        let notice = Incoming::Notice { method: "a/b".to_owned(), params: json!({"c": 1}) };
        assert_eq!(Incoming::parse(r#"{"method":"a/b","params":{"c":1}}"#), Some(notice));
        let line = question(4, "a/b", &json!({}));
        let asked =
            Incoming::Question { id: json!(4), method: "a/b".to_owned(), params: json!({}) };
        assert_eq!(Incoming::parse(&line), Some(asked));
        let line = answer(&json!(4), &json!(true));
        let answered = Incoming::Answer { id: 4, answer: Ok(json!(true)) };
        assert_eq!(Incoming::parse(&line), Some(answered));
        let line = not_offered(&json!(4), "fs/read");
        let refusal = Refusal { code: -32601, words: "`fs/read` is not offered".to_owned() };
        assert_eq!(Incoming::parse(&line), Some(Incoming::Answer { id: 4, answer: Err(refusal) }));
        for line in ["", "warning: x", "[]", "3", r#"{"id":"x","result":1}"#] {
            assert_eq!(Incoming::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_words_of_an_error_are_found_wherever_they_are() {
        let check = |error: serde_json::Value, words: &str| {
            assert_eq!(Refusal::of(&error).words, words, "{error}");
        };
        check(json!({"code": 1, "message": "Internal error: fake 400 error"}), "fake 400 error");
        check(json!({"message": "Internal error", "data": "no"}), "no");
        check(json!({"message": "Internal error", "data": {"message": "why"}}), "why");
        check(json!({"message": "Internal error: a", "data": {"service": "s"}}), "a");
        let listed = "no key\n\n  Model:     m\n  Version:   1";
        check(json!({"message": "Internal error", "data": listed}), "no key");
        check(json!("odd"), "an error without a message");
    }
}
