//! The body of `POST /stream` as the API document shows it. The parser reads
//! field by field; a test holds that it reads every field named here.

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
    /// What the sandbox is made from; `base` unless said.
    #[schema(min_length = 1, max_length = 4096)]
    template: Option<String>,
    #[schema(schema_with = described::on_disconnect, required = false)]
    on_disconnect: Option<String>,
    /// What the run may use.
    limits: Option<DispatchLimits>,
}

/// What a run may use.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it describes what `Dispatch::parse` reads")]
struct DispatchLimits {
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

    use super::{DispatchBody, DispatchLimits};
    use crate::dispatch::Dispatch;

    fn names<T: ToSchema>() -> Vec<String> {
        let schema = serde_json::to_value(<T as PartialSchema>::schema()).unwrap();
        let properties: Map<String, Value> =
            serde_json::from_value(schema["properties"].clone()).unwrap();
        properties.into_iter().map(|(name, _)| name).collect()
    }

    /// A body whose field `name` holds what no field may hold.
    #[track_caller]
    fn check(name: &str, mut body: Value) {
        let (place, field) = match name.split_once('.') {
            Some((outer, inner)) => (&mut body[outer], inner),
            None => (&mut body, name),
        };
        place[field] = json!([[]]);
        let complaint = Dispatch::parse(body.to_string().as_bytes()).unwrap_err().to_string();
        assert!(complaint.contains(&format!("`{name}`")), "{name}: {complaint}");
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
        for name in names::<DispatchLimits>() {
            check(&format!("limits.{name}"), json!({"prompt": "p", "config": {}, "limits": {}}));
        }
    }
}
