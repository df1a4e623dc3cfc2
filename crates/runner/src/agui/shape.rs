//! The body of `POST /agui` as the API document shows it: AG-UI's `RunAgentInput`,
//! as far as it is read, and our own choices in its `forwardedProps`.

use utoipa::ToSchema;

use crate::{
    described,
    dispatch::{DispatchLimits, DispatchPolicy, DispatchTool},
};

/// A `RunAgentInput` of AG-UI 1.0 or older.
#[derive(ToSchema)]
#[schema(
    as = RunAgentInput,
    rename_all = "camelCase",
    example = json!({
        "threadId": "t", "runId": "r",
        "messages": [{"id": "1", "role": "user", "content": "```sh\necho hello\n```"}],
        "tools": [], "context": [], "forwardedProps": {},
    })
)]
#[expect(dead_code, reason = "it describes what `RunAgentInput::parse` reads")]
pub(crate) struct AguiBody {
    /// The conversation.
    #[schema(min_length = 1, max_length = 4096)]
    thread_id: String,
    /// The client's name for the run.
    #[schema(min_length = 1, max_length = 4096)]
    run_id: String,
    /// What was said, oldest first; the last is a user's or a tool's.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<serde_json::Value>,
    /// Tools that the client executes once the run is over.
    tools: Option<Vec<AguiTool>>,
    /// What else the model should know.
    context: Option<Vec<AguiContext>>,
    /// What AG-UI has no field for.
    forwarded_props: Option<ForwardedProps>,
}

/// A tool that the client executes.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `RunAgentInput::parse` reads")]
struct AguiTool {
    /// What the model calls it.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    name: String,
    /// What it is for.
    description: Option<String>,
    /// JSON Schema of its arguments.
    #[schema(value_type = Option<Object>)]
    parameters: Option<serde_json::Value>,
}

/// Something that the model should know.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `RunAgentInput::parse` reads")]
struct AguiContext {
    /// What it is.
    description: String,
    /// What it says.
    value: String,
}

/// What `POST /stream` has and AG-UI has not. Every name may be written in
/// snake_case too; names that nobody knows are passed over.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes what `agui::read` reads")]
struct ForwardedProps {
    /// What the sandbox is made from; the harness's own template unless said.
    template: Option<String>,
    #[schema(schema_with = described::harness, required = false)]
    harness: Option<String>,
    /// The harness's session that goes on, as `<harness>.session-id` named it.
    session_id: Option<String>,
    /// An agent's configuration: `model`, `system_prompt`, `skills`, `mcp_servers`, …
    #[schema(value_type = Option<Object>)]
    config: Option<serde_json::Value>,
    /// `config.model` alone, or another name for the server's own model.
    #[schema(value_type = Option<Object>)]
    model: Option<serde_json::Value>,
    /// An environment: `{"variables": {…}, "setup_script": "…"}`.
    #[schema(value_type = Option<Object>)]
    env: Option<serde_json::Value>,
    policy: Option<DispatchPolicy>,
    #[schema(schema_with = described::file_events, required = false)]
    file_events: Option<serde_json::Value>,
    /// Whether the model may write programs that call the tools.
    code_mode: Option<bool>,
    /// Tools that servers execute while the run goes on.
    tools: Option<Vec<DispatchTool>>,
    limits: Option<DispatchLimits>,
    #[schema(schema_with = described::on_disconnect, required = false)]
    on_disconnect: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};
    use utoipa::{PartialSchema, ToSchema};

    use super::{AguiBody, ForwardedProps};
    use crate::agui::read;

    fn names<T: ToSchema>() -> Vec<String> {
        let schema = serde_json::to_value(<T as PartialSchema>::schema()).unwrap();
        let properties: Map<String, Value> =
            serde_json::from_value(schema["properties"].clone()).unwrap();
        properties.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn every_described_field_is_read() {
        let whole = json!({
            "threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "x"}],
            "forwardedProps": {},
        });
        let of_props = names::<ForwardedProps>().into_iter().map(|name| ("/forwardedProps", name));
        let of_body = names::<AguiBody>().into_iter().map(|name| ("", name));
        for (place, name) in of_body.chain(of_props) {
            let mut body = whole.clone();
            body.pointer_mut(place).unwrap()[&name] = json!([[]]);
            let complaint = read(body.to_string().as_bytes(), None).unwrap_err().to_string();
            let snake: String = name
                .chars()
                .flat_map(|letter| {
                    let before = letter.is_ascii_uppercase().then_some('_');
                    before.into_iter().chain([letter.to_ascii_lowercase()])
                })
                .collect();
            let said = complaint.contains(&name) || complaint.contains(&snake);
            assert!(said, "{name}: {complaint}");
        }
    }
}
