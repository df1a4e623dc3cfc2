//! What an MCP server's answer means for a step.

use rmcp::model::CallToolResult;
use serde_json::Value;

use crate::tools::{Returned, ToolError};

/// Structured content is the result as it is; otherwise texts are one text,
/// and anything else stays in the blocks that it came in.
pub(super) fn returned(result: CallToolResult) -> Result<Returned, ToolError> {
    let failed = result.is_error == Some(true);
    let texts: Option<Vec<&str>> =
        result.content.iter().map(|block| block.as_text().map(|text| text.text.as_str())).collect();
    let text = texts.map(|texts| texts.join("\n"));
    if failed {
        let message = match &text {
            Some(text) if !text.is_empty() => text.clone(),
            Some(_) | None => "the tool failed".to_owned(),
        };
        return Err(ToolError { message, result: result.structured_content });
    }
    let value = match (result.structured_content, text) {
        (Some(value), _) => value,
        (None, Some(text)) => Value::String(text),
        (None, None) => serde_json::to_value(&result.content)
            .map_err(|err| ToolError::new(format!("its result cannot be shown: {err}")))?,
    };
    Ok(Returned::whole(value))
}

#[cfg(test)]
mod tests {
    use rmcp::model::CallToolResult;
    use serde_json::{Value, json};

    use super::returned;

    #[track_caller]
    fn check(answer: Value, expected: Result<Value, &str>) {
        let result: CallToolResult = serde_json::from_value(answer).unwrap();
        let found = returned(result).map(|returned| returned.value).map_err(|err| err.message);
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn answers_become_results() {
        check(json!({"content": [{"type": "text", "text": "a"}]}), Ok(json!("a")));
        check(
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            Ok(json!("a\nb")),
        );
        check(
            json!({"content": [{"type": "text", "text": "{}"}], "structuredContent": {"x": 1}}),
            Ok(json!({"x": 1})),
        );
        let image = json!([{"type": "image", "data": "aGk=", "mimeType": "image/png"}]);
        check(json!({"content": image}), Ok(image));
        check(json!({"content": [{"type": "text", "text": "no"}], "isError": true}), Err("no"));
        check(json!({"content": [], "isError": true}), Err("the tool failed"));
    }
}
