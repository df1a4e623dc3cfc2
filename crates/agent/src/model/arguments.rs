//! The arguments of a tool call, as a model wrote them: mostly JSON.

use serde_json::{Map, Value};

/// The arguments of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arguments {
    /// An object, as it should be.
    Object(Map<String, Value>),
    /// Something else. The model is told, and may try again.
    Malformed { text: String, reason: String },
}

impl Arguments {
    /// Reads what a model wrote. Nothing at all counts as no arguments.
    pub(super) fn parse(text: &str) -> Arguments {
        if text.trim().is_empty() {
            return Arguments::Object(Map::new());
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) => Arguments::from_value(value),
            Err(err) => Arguments::Malformed { text: text.to_owned(), reason: err.to_string() },
        }
    }

    /// Takes arguments that came as JSON.
    pub(crate) fn from_value(value: Value) -> Arguments {
        match value {
            Value::Object(fields) => Arguments::Object(fields),
            Value::Null => Arguments::Object(Map::new()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let reason = "not a JSON object".to_owned();
                Arguments::Malformed { text: value.to_string(), reason }
            }
        }
    }

    /// As the model gave them, for the step's `args`.
    pub(crate) fn shown(&self) -> Value {
        match self {
            Arguments::Object(fields) => Value::Object(fields.clone()),
            Arguments::Malformed { text, .. } => Value::String(text.clone()),
        }
    }

    /// An object for providers that take nothing else back.
    pub(super) fn object(&self) -> Value {
        match self {
            Arguments::Object(fields) => Value::Object(fields.clone()),
            Arguments::Malformed { .. } => Value::Object(Map::new()),
        }
    }

    /// The text for providers that take it back as text.
    pub(super) fn text(&self) -> String {
        self.object().to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Arguments;

    #[track_caller]
    fn check(text: &str, shown: serde_json::Value, sent_back: &str) {
        let arguments = Arguments::parse(text);
        assert_eq!(arguments.shown(), shown, "{text:?}");
        assert_eq!(arguments.text(), sent_back, "{text:?}");
    }

    #[test]
    fn only_objects_are_arguments() {
        check("", json!({}), "{}");
        check(" \n", json!({}), "{}");
        check("null", json!({}), "{}");
        check(r#"{"a":1}"#, json!({"a": 1}), r#"{"a":1}"#);
        check("[1]", json!("[1]"), "{}");
        check(r#"{"a":"#, json!(r#"{"a":"#), "{}");
    }
}
