//! Where the agent's environment and configuration come from: the caller's
//! workspace, or the dispatch itself.

use serde_json::{Value, json};
use wire::{
    Secret,
    agent::{AgentConfig, AgentEnv},
};

use super::{CONFIG_LIMIT, TEXT_LIMIT, address};
use crate::fields::{BadBody, Fields};

/// Where the agent's environment and configuration come from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// From the caller's workspace.
    Callbacks {
        /// Without a slash at its end.
        agent_url: String,
        otp_setup: Secret<String>,
        otp_run: Secret<String>,
        otp_upload: Option<Secret<String>>,
    },
    /// From the dispatch itself.
    Inline { config: Secret<Value>, env: AgentEnv },
}

/// Takes whichever of the two is there.
pub(super) fn take(fields: &mut Fields) -> Result<Origin, BadBody> {
    let agent_url = fields.text("agent_url", TEXT_LIMIT)?;
    let config = fields.take("config")?;
    let env = fields.take("env")?;
    match (agent_url, config) {
        (Some(_), Some(_)) => Err(BadBody::Both("agent_url", "config")),
        (Some(_), None) if env.is_some() => Err(BadBody::Both("agent_url", "env")),
        (Some(url), None) => {
            let agent_url = address(&url)
                .ok_or_else(|| fields.wrong("agent_url", "must be an absolute http(s) address"))?;
            let otp_setup = one_time_token(fields, "otp_setup")?;
            let otp_run = one_time_token(fields, "otp_run")?;
            let otp_upload = one_time_token(fields, "otp_upload")?;
            Ok(Origin::Callbacks {
                agent_url,
                otp_setup: otp_setup.ok_or_else(|| fields.missing("otp_setup"))?,
                otp_run: otp_run.ok_or_else(|| fields.missing("otp_run"))?,
                otp_upload,
            })
        }
        (None, Some(config)) => {
            for name in ["otp_setup", "otp_run", "otp_upload"] {
                if fields.take(name)?.is_some() {
                    return Err(fields.wrong(name, "is of no use beside `config`"));
                }
            }
            inline(fields, config, env.unwrap_or(Value::Null))
        }
        (None, None) => Err(fields.missing("agent_url")),
    }
}

/// Checks a config and an environment that came with the dispatch, as the fields
/// `config` and `env`.
pub(crate) fn inline(fields: &Fields, config: Value, env: Value) -> Result<Origin, BadBody> {
    for (name, value) in [("config", &config), ("env", &env)] {
        if value.to_string().len() > CONFIG_LIMIT {
            return Err(fields.wrong(name, &format!("must be at most {CONFIG_LIMIT} bytes long")));
        }
    }
    if let Err(err) = serde_json::from_value::<AgentConfig>(config.clone()) {
        return Err(fields.wrong("config", &format!("is not a configuration: {err}")));
    }
    let env = if env.is_null() { json!({}) } else { env };
    let env: AgentEnv = serde_json::from_value(env)
        .map_err(|err| fields.wrong("env", &format!("is not an environment: {err}")))?;
    Ok(Origin::Inline { config: Secret::new(config), env })
}

/// A token has to fit a header.
fn one_time_token(
    fields: &mut Fields,
    name: &'static str,
) -> Result<Option<Secret<String>>, BadBody> {
    match fields.text(name, TEXT_LIMIT)? {
        Some(token) if !token.bytes().all(|b| b.is_ascii_graphic()) => {
            Err(fields.wrong(name, "must be printable ASCII without spaces"))
        }
        token => Ok(token.map(Secret::new)),
    }
}
