//! Models: which one, where it is, and the key to it, which is a secret.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::{
    Secret,
    agent::{ModelConfig, Provider, ScriptedRound},
    workspace::ResourceKind,
};

use super::{Checked, Resource, check_count, check_name, check_text, checks::check_address, crud};
use crate::{member::Owner, problem::Problem};

/// Longest name of a model.
const MODEL_NAME: usize = 200;
/// Longest key.
const KEY: usize = 8 << 10;
/// Most tokens of one answer.
const TOKENS: u32 = 10_000_000;
/// Most rounds of a script, and their most bytes.
const ROUNDS: usize = 1_000;
const SCRIPT: usize = 1 << 20;

/// A model.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Model {
    /// The wire format it speaks.
    #[schema(value_type = String, pattern = "^(anthropic|openai|openai-responses|scripted)$")]
    provider: Provider,
    /// What its provider calls it.
    model_name: String,
    /// Where it is; its provider's own address when null.
    base_url: Option<String>,
    /// Whether there is a key. The key itself is never answered.
    has_api_key: bool,
    /// Most tokens of one answer.
    max_tokens: Option<u32>,
    /// How far it may stray.
    temperature: Option<f64>,
    /// What the scripted provider answers.
    #[schema(value_type = Option<Vec<Value>>)]
    script: Option<Vec<ScriptedRound>>,
}

/// A model as it is sent.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewModel {
    /// Its name here. Agents without a model have the one called `default`.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// The wire format it speaks.
    #[schema(value_type = String, pattern = "^(anthropic|openai|openai-responses|scripted)$")]
    provider: Provider,
    /// What its provider calls it. The scripted provider needs none.
    #[serde(default)]
    #[schema(max_length = 200)]
    model_name: String,
    /// Where it is.
    #[serde(default)]
    #[schema(pattern = "^https?://")]
    base_url: Option<String>,
    /// The key to it. Without it, or with null, the key that is there is kept,
    /// unless `baseUrl` changes: a key goes nowhere but where it was given for.
    /// An empty one takes it away.
    #[serde(default)]
    api_key: Option<String>,
    /// Most tokens of one answer.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10_000_000)]
    max_tokens: Option<u32>,
    /// How far it may stray.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// What the scripted provider answers, round by round; for it alone.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Value>>)]
    script: Option<Vec<ScriptedRound>>,
}

crud!(
    Model,
    NewModel,
    Owner,
    "/api/models",
    "models",
    "a model",
    "models",
    create_model,
    list_models,
    get_model,
    replace_model,
    delete_model
);

impl Model {
    /// The model as agents are told it.
    pub(crate) fn config(self, key: Option<String>) -> ModelConfig {
        ModelConfig {
            provider: self.provider,
            name: self.model_name,
            base_url: self.base_url,
            api_key: key.map(Secret::new),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            script: self.script,
        }
    }
}

impl Resource for Model {
    const KIND: ResourceKind = ResourceKind::Model;
    type Input = NewModel;
    /// The key.
    type Secrets = Option<String>;

    fn moves(input: &NewModel, before: &Model) -> bool {
        input.base_url != before.base_url || input.provider != before.provider
    }

    fn check(input: NewModel, before: Option<String>) -> Result<Checked<Model>, Problem> {
        check_name("name", &input.name)?;
        check_text("modelName", &input.model_name, MODEL_NAME)?;
        if input.provider != Provider::Scripted && input.model_name.trim().is_empty() {
            return Err(Problem::bad_field("modelName", "is empty"));
        }
        if let Some(url) = &input.base_url {
            check_address("baseUrl", url)?;
        }
        if input.max_tokens.is_some_and(|tokens| !(1..=TOKENS).contains(&tokens)) {
            return Err(Problem::bad_field("maxTokens", format!("is 1 to {TOKENS}")));
        }
        if input.temperature.is_some_and(|it| !(0.0..=2.0).contains(&it)) {
            return Err(Problem::bad_field("temperature", "is 0 to 2"));
        }
        check_script(input.provider, input.script.as_deref())?;
        let secrets = match input.api_key {
            Some(key) if key.is_empty() => None,
            Some(key) => Some(key),
            None => before,
        };
        check_key(secrets.as_deref())?;
        let body = Model {
            provider: input.provider,
            model_name: input.model_name,
            base_url: input.base_url,
            has_api_key: secrets.is_some(),
            max_tokens: input.max_tokens,
            temperature: input.temperature,
            script: input.script,
        };
        Ok(Checked { name: input.name, body, secrets })
    }
}

/// Keys travel in headers.
fn check_key(key: Option<&str>) -> Result<(), Problem> {
    let Some(key) = key else { return Ok(()) };
    check_text("apiKey", key, KEY)?;
    if key.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(Problem::bad_field("apiKey", "is not visible ASCII characters alone"))
    }
}

fn check_script(provider: Provider, script: Option<&[ScriptedRound]>) -> Result<(), Problem> {
    let Some(script) = script else { return Ok(()) };
    if provider != Provider::Scripted {
        let message = format!("is for provider `scripted`, not `{}`", provider.as_str());
        return Err(Problem::bad_field("script", message));
    }
    check_count("script", script.len(), ROUNDS)?;
    let size = serde_json::to_vec(script).map_or(usize::MAX, |bytes| bytes.len());
    if size > SCRIPT {
        return Err(Problem::bad_field("script", format!("is larger than {SCRIPT} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Model, NewModel};
    use crate::{
        problem::Problem,
        resources::{Checked, Resource},
    };

    fn checked(sent: Value, before: Option<&str>) -> Result<Checked<Model>, Problem> {
        let sent: NewModel = serde_json::from_value(sent).unwrap();
        Model::check(sent, before.map(str::to_owned))
    }

    #[test]
    fn a_key_is_kept_replaced_or_taken_away() {
        let check = |key: Value, before, expected: Option<&str>| {
            let sent = json!({"name": "a", "provider": "openai", "modelName": "m", "apiKey": key});
            let checked = checked(sent, before).unwrap();
            assert_eq!(checked.secrets.as_deref(), expected);
            assert_eq!(checked.body.has_api_key, expected.is_some());
        };
        check(json!(null), None, None);
        check(json!(null), Some("old"), Some("old"));
        check(json!("new"), Some("old"), Some("new"));
        check(json!(""), Some("old"), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |more: Value, field: &str| {
            let mut sent = json!({"name": "a", "provider": "openai", "modelName": "m"});
            sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let problem = checked(sent, None).err().map(|problem| format!("{problem:?}"));
            let named = problem.as_ref().is_some_and(|it| it.contains(&format!("{field:?}")));
            assert!(named, "{more}: {problem:?}");
        };
        check(json!({"name": ""}), "name");
        check(json!({"modelName": " "}), "modelName");
        check(json!({"baseUrl": "ftp://a"}), "baseUrl");
        check(json!({"apiKey": "a b"}), "apiKey");
        check(json!({"maxTokens": 0}), "maxTokens");
        check(json!({"temperature": 2.5}), "temperature");
        check(json!({"script": []}), "script");
        assert!(checked(json!({"name": "a", "provider": "scripted", "script": []}), None).is_ok());
    }
}
