//! The body of `POST /stream` as the API document shows it. The parser reads
//! field by field; a test holds that it reads every field named here.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use crate::described;

/// A dispatch: `agent_url` with its tokens, or `config` with `env`.
///
/// Every name may be written in camelCase too.
#[derive(ToSchema)]
#[schema(example = json!({"prompt": "```sh\necho hello\n```", "config": {}}))]
#[expect(dead_code, reason = "it describes what `Dispatch::parse` reads")]
pub(crate) struct DispatchBody {
    /// What the agent is to do.
    #[schema(min_length = 1, max_length = 1_048_576)]
    prompt: String,
    /// The caller's workspace, which the sandbox calls back.
    agent_url: Option<String>,
    /// The one-time token for `{agent_url}/env`; required beside `agent_url`.
    otp_setup: Option<String>,
    /// The one-time token for `{agent_url}/config`; required beside `agent_url`.
    otp_run: Option<String>,
    /// The one-time token for `{agent_url}/results`; without it nothing is written back.
    otp_upload: Option<String>,
    /// What `{agent_url}/config` would answer, for a caller without a workspace.
    #[schema(value_type = Option<Object>)]
    config: Option<serde_json::Value>,
    /// What `{agent_url}/env` would answer: `{"variables": {…}, "setup_script": "…"}`.
    #[schema(value_type = Option<Object>)]
    env: Option<serde_json::Value>,
    /// The conversation, when the caller is an assistant.
    #[schema(min_length = 1, max_length = 4096)]
    chat_id: Option<String>,
    #[schema(schema_with = described::harness, required = false)]
    harness: Option<String>,
    model_options: Option<ModelOptions>,
    /// What the sandbox is made from; `base` unless said, and what is called as the
    /// harness for one that is a program.
    #[schema(min_length = 1, max_length = 4096)]
    template: Option<String>,
    #[schema(schema_with = described::on_disconnect, required = false)]
    on_disconnect: Option<String>,
    #[schema(schema_with = described::file_events, required = false)]
    file_events: Option<serde_json::Value>,
    /// Tools of the caller's that the agent may call.
    #[schema(max_items = 128)]
    tools: Option<Vec<DispatchTool>>,
    policy: Option<DispatchPolicy>,
    /// Whether the model may write programs that call the tools.
    #[schema(default = false)]
    code_mode: Option<bool>,
    /// What the run may use.
    limits: Option<DispatchLimits>,
}

/// What the harness is told of its own.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `Dispatch::parse` reads")]
struct ModelOptions {
    /// The session of a former run that goes on, as its `<harness>.session-id` named it.
    #[schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$")]
    session_id: Option<String>,
}

/// A tool that a server of the caller's executes.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it describes what `Dispatch::parse` reads")]
pub(crate) struct DispatchTool {
    /// What the model calls it.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    name: String,
    /// What it is for.
    #[schema(max_length = 65_536)]
    description: Option<String>,
    /// JSON Schema of its arguments.
    #[schema(value_type = Option<Object>)]
    parameters: Option<serde_json::Value>,
    /// Where each call is posted to.
    url: String,
    /// Headers of each call. They never enter a sandbox.
    headers: Option<BTreeMap<String, String>>,
    /// Longest time of a call.
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
}

/// What the agent may do on its own; everything, if there is none.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it describes what `Dispatch::parse` reads")]
pub(crate) struct DispatchPolicy {
    commands: Option<PolicyCommands>,
    capabilities: Option<PolicyCapabilities>,
    #[schema(schema_with = described::ruling, required = false)]
    default: Option<String>,
    /// `allow` or `deny` by the `approvalId` of an `approval-requested`.
    approvals: Option<BTreeMap<String, String>>,
}

/// Patterns of whole commands, in which `*` stands for anything.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it describes what `Dispatch::parse` reads")]
struct PolicyCommands {
    /// These run.
    allow: Option<Vec<String>>,
    /// These run once somebody has agreed.
    ask: Option<Vec<String>>,
    /// These do not run.
    deny: Option<Vec<String>>,
}

/// By what is done, whatever the tool.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it describes what `Dispatch::parse` reads")]
struct PolicyCapabilities {
    #[schema(schema_with = described::ruling, required = false)]
    file_write: Option<String>,
    #[schema(schema_with = described::ruling, required = false)]
    network: Option<String>,
}

/// What a run may use.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it describes what `Dispatch::parse` reads")]
pub(crate) struct DispatchLimits {
    /// Longest time of the run, in seconds.
    #[schema(minimum = 1)]
    max_runtime_sec: Option<u64>,
    /// Longest wait for a byte of the model, in seconds.
    #[schema(minimum = 1)]
    model_timeout_sec: Option<u64>,
    /// Most tokens that the model may read and write.
    #[schema(minimum = 1)]
    tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};
    use utoipa::{PartialSchema, ToSchema};

    use super::{
        DispatchBody, DispatchLimits, DispatchPolicy, DispatchTool, ModelOptions,
        PolicyCapabilities, PolicyCommands,
    };
    use crate::dispatch::Dispatch;

    fn names<T: ToSchema>() -> Vec<String> {
        let schema = serde_json::to_value(<T as PartialSchema>::schema()).unwrap();
        let properties: Map<String, Value> =
            serde_json::from_value(schema["properties"].clone()).unwrap();
        properties.into_iter().map(|(name, _)| name).collect()
    }

    /// A body whose field at `place` holds what no field may hold.
    #[track_caller]
    fn check(place: &str, mut body: Value) {
        let pointer = format!("/{}", place.replace('.', "/").replace("[0]", "/0"));
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[field] = json!([[]]);
        let complaint = Dispatch::parse(body.to_string().as_bytes()).unwrap_err().to_string();
        assert!(complaint.contains(&format!("`{place}")), "{place}: {complaint}");
    }

    #[test]
    fn every_described_field_is_read() {
        let callbacks =
            json!({"prompt": "p", "agent_url": "http://a/", "otp_setup": "s", "otp_run": "r"});
        let inline = json!({"prompt": "p", "config": {}});
        for name in names::<DispatchBody>() {
            let is_inline = ["config", "env"].contains(&name.as_str());
            check(&name, if is_inline { inline.clone() } else { callbacks.clone() });
        }
        for (place, names) in [
            ("limits", names::<DispatchLimits>()),
            ("model_options", names::<ModelOptions>()),
            ("tools[0]", names::<DispatchTool>()),
            ("policy", names::<DispatchPolicy>()),
            ("policy.commands", names::<PolicyCommands>()),
            ("policy.capabilities", names::<PolicyCapabilities>()),
        ] {
            for name in names {
                let body = json!({
                    "prompt": "p", "config": {}, "limits": {}, "model_options": {},
                    "tools": [{"name": "a", "url": "http://a"}],
                    "policy": {"commands": {}, "capabilities": {}},
                });
                check(&format!("{place}.{name}"), body);
            }
        }
    }
}
