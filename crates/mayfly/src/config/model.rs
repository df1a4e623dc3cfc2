//! The server's own model: who answers clients that name none.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use wire::Secret;
use wire::agent::{ModelConfig, Provider};

use super::{ConfigError, ServerUrl};

/// What was said of it.
pub(super) struct Said {
    pub(super) provider: Option<Provider>,
    pub(super) name: Option<String>,
    pub(super) base_url: Option<ServerUrl>,
    /// `MAYFLY_MODEL_API_KEY`.
    pub(super) key: Option<Secret<String>>,
}

impl Said {
    /// The model it comes down to. Half a model is refused: who set its address
    /// would wonder who answers.
    pub(super) fn decide(self) -> Result<Option<ModelConfig>, ConfigError> {
        let Said { provider, name, base_url, key } = self;
        let Some(provider) = provider else {
            return match (name, base_url) {
                (None, None) => Ok(None),
                (Some(_), _) => {
                    Err(ConfigError::HalfAModel { said: "--model-name", lacks: "--model-provider" })
                }
                (None, Some(_)) => Err(ConfigError::HalfAModel {
                    said: "--model-base-url",
                    lacks: "--model-provider",
                }),
            };
        };
        let name = match (name, provider) {
            (Some(name), _) => name,
            (None, Provider::Scripted) => String::new(),
            (None, Provider::Anthropic | Provider::Openai | Provider::OpenaiResponses) => {
                return Err(ConfigError::HalfAModel {
                    said: "--model-provider",
                    lacks: "--model-name",
                });
            }
        };
        let base_url = base_url.map(|url| url.to_string());
        let usual = ModelConfig::default();
        Ok(Some(ModelConfig { provider, name, base_url, api_key: key, ..usual }))
    }
}

/// Names all providers, so that help and completion know them.
pub(super) fn provider_parser() -> impl TypedValueParser<Value = Provider> {
    PossibleValuesParser::new(["anthropic", "openai", "openai-responses", "scripted"])
        .try_map(|name| parse_provider(&name))
}

pub(super) fn parse_provider(name: &str) -> Result<Provider, &'static str> {
    let all =
        [Provider::Anthropic, Provider::Openai, Provider::OpenaiResponses, Provider::Scripted];
    let found = all.into_iter().find(|provider| provider.as_str() == name);
    found.ok_or("give anthropic, openai, openai-responses or scripted")
}
