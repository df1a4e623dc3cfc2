//! How deep JSON may go that we store and have to read again.
//!
//! What reads JSON gives up at 127 levels, so that nobody exhausts its stack.
//! A value that was read may be near that already; stored a few levels further
//! down, it would make its row one that nobody can read any more.

use serde_json::Value;

/// Most levels of a value that is stored inside of something of ours.
pub(crate) const DEEPEST: usize = 100;

/// Whether the value has more levels than that.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    is_deeper(value, DEEPEST)
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let inside = |value: &Value| is_deeper(value, levels - 1);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        Value::Array(values) => levels == 0 || values.iter().any(inside),
        Value::Object(fields) => levels == 0 || fields.values().any(inside),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DEEPEST, is_too_deep};

    #[test]
    fn levels_are_counted_through_lists_and_objects() {
        let deep = |levels: usize| (0..levels).fold(Value::Null, |value, _| json!([value]));
        assert!(!is_too_deep(&json!("text")));
        assert!(!is_too_deep(&deep(DEEPEST)));
        assert!(is_too_deep(&deep(DEEPEST + 1)));
        assert!(is_too_deep(&json!([1, {"a": deep(DEEPEST - 1)}])));
    }
}
