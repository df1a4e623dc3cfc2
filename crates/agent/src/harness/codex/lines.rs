//! What Codex's app server writes, as far as we read it.
//!
//! Unknown notifications and unknown fields are passed over: a newer Codex says
//! more. Items stay JSON: `items` reads them.

use serde::Deserialize;
use serde_json::Value;

/// One line. It is an answer, a request or a notification, by what it has.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) id: Option<Value>,
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) params: Value,
    pub(super) result: Option<Value>,
    pub(super) error: Option<RpcError>,
}

/// A request of ours that was refused.
#[derive(Debug, Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    pub(super) message: String,
}

/// A piece of an item.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Piece {
    pub(super) item_id: String,
    #[serde(default)]
    pub(super) delta: String,
    /// Which part of a summary it belongs to.
    #[serde(default)]
    pub(super) summary_index: u64,
}

/// An item begins or is complete.
#[derive(Debug, Deserialize)]
pub(super) struct ItemParams {
    pub(super) item: Value,
}

/// The turn is over.
#[derive(Debug, Deserialize)]
pub(super) struct TurnParams {
    pub(super) turn: Turn,
}

/// How a turn ended.
#[derive(Debug, Deserialize)]
pub(super) struct Turn {
    pub(super) status: String,
    pub(super) error: Option<TurnError>,
}

/// Something failed, maybe not for good.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorParams {
    pub(super) error: TurnError,
    #[serde(default)]
    pub(super) will_retry: bool,
}

/// What failed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnError {
    pub(super) message: String,
    pub(super) additional_details: Option<String>,
}

/// Something for whoever configures Codex.
#[derive(Debug, Deserialize)]
pub(super) struct Notice {
    #[serde(alias = "summary")]
    pub(super) message: String,
    pub(super) details: Option<String>,
}

/// How far an MCP server is.
#[derive(Debug, Deserialize)]
pub(super) struct ServerStatus {
    pub(super) name: String,
    pub(super) status: String,
    pub(super) error: Option<String>,
}

impl TurnError {
    /// The provider's words. Codex passes on a whole answer, or puts its own
    /// words around the message in it.
    pub(super) fn words(&self) -> String {
        let answer = serde_json::from_str::<Value>(&self.message).ok();
        let inner = answer.as_ref().and_then(|answer| answer.pointer("/error/message"));
        match inner.and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            // The address is the host link's and says nothing to anybody.
            None => match self.message.rsplit_once(", url: http") {
                Some((words, _)) => words.to_owned(),
                None => self.message.clone(),
            },
        }
    }
}
