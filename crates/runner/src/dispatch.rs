//! The body of `POST /stream`: what a caller dispatches, checked before anything
//! is started. A mistake is told by the name of its field.
//!
//! Fields nobody knows are passed over, since callers send more than a runner
//! needs. Those that a later version will know are refused: to ignore them would
//! look like consent.

mod shape;

use http::Uri;
use serde_json::{Value, json};
use store::OnDisconnect;
use wire::{
    Secret,
    agent::{AgentConfig, AgentEnv},
};

use crate::fields::{BadBody, Fields};

pub(crate) use shape::DispatchBody;

/// Longest prompt.
const PROMPT_LIMIT: usize = 1 << 20;
/// Largest inline config, and environment.
const CONFIG_LIMIT: usize = 8 << 20;
/// Largest body: a config, an environment, a prompt, and the rest.
pub(crate) const BODY_LIMIT: usize = 2 * CONFIG_LIMIT + 2 * PROMPT_LIMIT;
/// Longest of everything else that is text.
const TEXT_LIMIT: usize = 4096;
/// What a sandbox is made from, when the caller says nothing.
const TEMPLATE: &str = "base";
/// The harness of this version.
pub(crate) const HARNESS: &str = "builtin";

/// A dispatch that may be started.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) prompt: String,
    pub(crate) chat_id: Option<String>,
    pub(crate) template: String,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) origin: Origin,
    pub(crate) limits: Limits,
}

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

/// What the caller allows the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_runtime_sec: Option<u64>,
    pub(crate) model_timeout_sec: Option<u64>,
    pub(crate) tokens: Option<u64>,
}

impl Dispatch {
    /// Reads a body, or says which field is wrong.
    pub(crate) fn parse(body: &[u8]) -> Result<Dispatch, BadBody> {
        let mut fields = Fields::of_body(body)?;
        refuse_what_is_not_there(&mut fields)?;
        let prompt =
            fields.text("prompt", PROMPT_LIMIT)?.ok_or_else(|| fields.missing("prompt"))?;
        let on_disconnect = match fields.text("on_disconnect", TEXT_LIMIT)? {
            None => OnDisconnect::Cancel,
            Some(name) => OnDisconnect::parse(&name)
                .ok_or_else(|| fields.wrong("on_disconnect", "must be `cancel` or `continue`"))?,
        };
        Ok(Dispatch {
            prompt,
            on_disconnect,
            chat_id: fields.text("chat_id", TEXT_LIMIT)?,
            template: fields.text("template", TEXT_LIMIT)?.unwrap_or_else(|| TEMPLATE.to_owned()),
            limits: limits(fields.inside("limits")?)?,
            origin: origin(&mut fields)?,
        })
    }
}

fn origin(fields: &mut Fields) -> Result<Origin, BadBody> {
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
        (None, Some(config)) => inline(fields, config, env.unwrap_or(Value::Null)),
        (None, None) => Err(fields.missing("agent_url")),
    }
}

fn inline(fields: &mut Fields, config: Value, env: Value) -> Result<Origin, BadBody> {
    for name in ["otp_setup", "otp_run", "otp_upload"] {
        if fields.take(name)?.is_some() {
            return Err(fields.wrong(name, "is of no use beside `config`"));
        }
    }
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

fn limits(mut fields: Fields) -> Result<Limits, BadBody> {
    let limits = Limits {
        max_runtime_sec: fields.count("max_runtime_sec")?,
        model_timeout_sec: fields.count("model_timeout_sec")?,
        tokens: fields.count("tokens")?,
    };
    // A limit that is not kept is worse than none.
    fields.nothing_else()?;
    Ok(limits)
}

/// An absolute address that paths can be put behind.
fn address(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority()?.as_str();
    let plain = !authority.contains('@') && uri.query().is_none() && !text.contains('#');
    let named = uri.host().is_some_and(|host| !host.is_empty());
    (known && plain && named).then(|| text.trim_end_matches('/').to_owned())
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

fn refuse_what_is_not_there(fields: &mut Fields) -> Result<(), BadBody> {
    if let Some(harness) = fields.text("harness", TEXT_LIMIT)?
        && harness != HARNESS
    {
        return Err(BadBody::NotYet(format!("harness: {harness}")));
    }
    match fields.take("file_events")? {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => return Err(BadBody::NotYet("fileEvents".to_owned())),
        Some(_) => return Err(fields.wrong("file_events", "must be true or false")),
    }
    for name in ["tools", "policy"] {
        let asked = match fields.take(name)? {
            None => false,
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Object(map)) => !map.is_empty(),
            Some(_) => true,
        };
        if asked {
            return Err(BadBody::NotYet(name.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
