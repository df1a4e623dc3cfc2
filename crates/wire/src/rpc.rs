//! JSON-RPC 2.0, as much of it as an MCP server without sessions needs. The host
//! serves the caller's tools by it, and the agent its own to a CLI.

use serde_json::{Map, Value, json};

/// The versions of MCP that are known, the newest last.
const VERSIONS: [&str; 3] = ["2024-11-05", "2025-03-26", "2025-06-18"];

/// A message that was understood.
#[derive(Debug, PartialEq)]
pub enum Message {
    /// It wants an answer.
    Request {
        /// Whose answer it is.
        id: Value,
        /// What is wanted.
        method: String,
        /// With what.
        params: Value,
    },
    /// It wants none: a notification, or an answer to what nobody asked.
    Notice,
}

/// Why there is no result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    code: i32,
    message: String,
}

impl RpcError {
    /// The method is not there.
    pub fn no_method(method: &str) -> RpcError {
        let method: String = method.escape_debug().take(64).collect();
        RpcError { code: -32601, message: format!("there is no method `{method}`") }
    }

    /// The parameters are wrong.
    pub fn wrong(message: impl Into<String>) -> RpcError {
        RpcError { code: -32602, message: message.into() }
    }

    /// The answer that says so.
    pub fn answer(&self, id: &Value) -> Value {
        let error = json!({"code": self.code, "message": self.message});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

/// The answer to a request.
pub fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Reads a message, or says what is wrong with it, and whose it is if it says so.
pub fn parse(bytes: &[u8]) -> Result<Message, (Value, RpcError)> {
    let bad = |code: i32, message: &str| RpcError { code, message: message.to_owned() };
    let message: Value = serde_json::from_slice(bytes)
        .map_err(|_| (Value::Null, bad(-32700, "the message is not JSON")))?;
    let Value::Object(mut message) = message else {
        return Err((Value::Null, bad(-32600, "the message is not one object")));
    };
    let id = message.remove("id");
    let said = id.clone().unwrap_or_default();
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err((echo(said), bad(-32600, "`jsonrpc` is not \"2.0\"")));
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if is_answer(&message) => return Ok(Message::Notice),
        Some(_) | None => return Err((echo(said), bad(-32600, "`method` is not a string"))),
    };
    let params = message.remove("params").unwrap_or_default();
    match id {
        None => Ok(Message::Notice),
        Some(id @ (Value::String(_) | Value::Number(_))) => {
            Ok(Message::Request { id, method, params })
        }
        Some(_) => Err((Value::Null, bad(-32600, "`id` is neither a string nor a number"))),
    }
}

/// The result of `initialize`: a version that is known is echoed, any other gets
/// the newest.
pub fn initialized(params: &Value, server: &str, version: &str) -> Value {
    let [.., newest] = VERSIONS;
    let asked = params["protocolVersion"].as_str();
    let spoken = asked.filter(|asked| VERSIONS.contains(asked)).unwrap_or(newest);
    json!({
        "protocolVersion": spoken,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": server, "version": version},
    })
}

fn is_answer(message: &Map<String, Value>) -> bool {
    message.contains_key("result") || message.contains_key("error")
}

/// An id that may be one.
fn echo(id: Value) -> Value {
    if id.is_string() || id.is_number() { id } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Message, initialized, parse};

    #[track_caller]
    fn refused(message: &str, id: Value, code: i32) {
        let (found, err) = parse(message.as_bytes()).unwrap_err();
        assert_eq!((found, err.code), (id, code), "{message}");
    }

    #[test]
    fn requests_have_an_id_and_everything_else_wants_no_answer() {
        let request = parse(br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).unwrap();
        let (id, method) = (json!("a"), "ping".to_owned());
        assert_eq!(request, Message::Request { id, method, params: Value::Null });
        for notice in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"anything","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
        ] {
            assert_eq!(parse(notice.as_bytes()), Ok(Message::Notice), "{notice}");
        }
    }

    #[test]
    fn a_known_version_is_echoed_and_any_other_gets_the_newest() {
        for (asked, expected) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2030-01-01", "2025-06-18"),
            ("", "2025-06-18"),
        ] {
            let answer = initialized(&json!({"protocolVersion": asked}), "mayfly", "1");
            assert_eq!(answer["protocolVersion"], expected);
        }
        assert_eq!(initialized(&Value::Null, "mayfly", "1")["protocolVersion"], "2025-06-18");
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_code() {
        refused("", Value::Null, -32700);
        refused("{", Value::Null, -32700);
        refused(&"[".repeat(100_000), Value::Null, -32700);
        refused("\u{0}", Value::Null, -32700);
        refused("[]", Value::Null, -32600);
        refused(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Value::Null, -32600);
        refused("3", Value::Null, -32600);
        refused(r#"{"id":1,"method":"ping"}"#, json!(1), -32600);
        refused(r#"{"jsonrpc":"1.0","id":[1],"method":"ping"}"#, Value::Null, -32600);
        refused(r#"{"jsonrpc":"2.0","id":1}"#, json!(1), -32600);
        refused(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, json!(1), -32600);
        refused(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null, -32600);
        refused(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Value::Null, -32600);
    }
}
