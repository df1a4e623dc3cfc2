//! What the answer to a prompt says: how the turn ended.

use serde_json::Value;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The model had nothing left to do.
    EndTurn,
    /// Its answer was cut off.
    MaxTokens,
    /// It was asked as often as it may be.
    MaxRequests,
    /// Something was not allowed, or somebody said stop.
    Cancelled,
}

impl Stop {
    pub(super) fn of(answer: &Value) -> Stop {
        match answer["stopReason"].as_str() {
            Some("max_tokens") => Stop::MaxTokens,
            Some("max_turn_requests") => Stop::MaxRequests,
            Some("cancelled") => Stop::Cancelled,
            // A refusal is a message too.
            Some(_) | None => Stop::EndTurn,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Stop;

    #[test]
    fn an_unknown_end_is_an_end() {
        assert_eq!(Stop::of(&json!({"stopReason": "refusal"})), Stop::EndTurn);
        assert_eq!(Stop::of(&json!({"stopReason": "cancelled"})), Stop::Cancelled);
        assert_eq!(Stop::of(&json!(null)), Stop::EndTurn);
    }
}
