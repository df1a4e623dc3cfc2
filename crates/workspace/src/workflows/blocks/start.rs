//! `start`: the execution's input, whole and by its fields.

use serde_json::Value;

use super::Outputs;

/// `input` is all of it. The fields of an object are outputs too; one that is
/// called `input` itself is reached as `input.input`.
pub(super) fn outputs(input: &Value) -> Outputs {
    let mut outputs = input.as_object().cloned().unwrap_or_default();
    outputs.insert("input".to_owned(), input.clone());
    outputs
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::outputs;

    #[track_caller]
    fn check(input: Value, expected: Value) {
        assert_eq!(Value::Object(outputs(&input)), expected);
    }

    #[test]
    fn an_input_is_handed_on_whole_and_by_its_fields() {
        check(json!({ "a": 1 }), json!({ "a": 1, "input": { "a": 1 } }));
        check(json!({ "input": 1 }), json!({ "input": { "input": 1 } }));
        check(json!("text"), json!({ "input": "text" }));
        check(Value::Null, json!({ "input": null }));
    }
}
