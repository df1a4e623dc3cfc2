//! What runs the loop, and what follows from it: the template, the session that
//! goes on, and whose model it can speak to.

use serde_json::Value;
use wire::agent::{Harness, Provider};

use super::{Origin, TEMPLATE, TEXT_LIMIT};
use crate::fields::{BadBody, Fields};

/// Longest name of a session.
const SESSION_LIMIT: usize = 128;

/// The harness that the dispatch names, or its inline configuration. Refuses one
/// that does not speak to the configuration's model.
pub(super) fn take(fields: &mut Fields, origin: &Origin) -> Result<Option<Harness>, BadBody> {
    let named = |fields: &Fields, field: &str, name: &str| {
        let known: Vec<String> = Harness::ALL.map(|one| format!("`{one}`")).into();
        let must = format!("must be one of {}", known.join(", "));
        Harness::parse(name).ok_or_else(|| fields.wrong(field, &must))
    };
    let asked = match fields.text("harness", TEXT_LIMIT)? {
        None => None,
        Some(name) => Some(named(fields, "harness", &name)?),
    };
    let Some(config) = inline(origin) else { return Ok(asked) };
    let configured = match config["harness"]["kind"].as_str() {
        None => None,
        Some(name) => Some(named(fields, "config.harness.kind", name)?),
    };
    let harness = asked.or(configured);
    if let Some(must) = harness.and_then(|harness| refusal(harness, provider(config))) {
        return Err(fields.wrong("config.model.provider", &must));
    }
    Ok(harness)
}

/// What a sandbox is made from when nobody says.
pub(super) fn template(harness: Option<Harness>) -> &'static str {
    match harness {
        None | Some(Harness::Builtin) => TEMPLATE,
        Some(
            cli @ (Harness::ClaudeCode | Harness::Codex | Harness::Opencode | Harness::GrokBuild),
        ) => cli.name(),
    }
}

/// The harness's session that the dispatch goes on with, or its configuration.
pub(super) fn session(fields: &mut Fields, origin: &Origin) -> Result<Option<String>, BadBody> {
    let mut options = fields.inside("model_options")?;
    if let Some(id) = session_id(&mut options, "session_id")? {
        return Ok(Some(id));
    }
    let configured = inline(origin).and_then(|config| config["harness"]["session_id"].as_str());
    match configured {
        Some(id) if !is_session_id(id) => Err(fields.wrong("config.harness.session_id", MUST)),
        id => Ok(id.map(str::to_owned)),
    }
}

/// Takes the name of a session out.
pub(crate) fn session_id(fields: &mut Fields, name: &str) -> Result<Option<String>, BadBody> {
    match fields.text(name, TEXT_LIMIT)? {
        Some(id) if !is_session_id(&id) => Err(fields.wrong(name, MUST)),
        id => Ok(id),
    }
}

const MUST: &str = "must be 1 to 128 letters, digits, `_`, `.` and `-`, and begin with no dot";

/// A session is kept under its name, so it has to be one part of a path.
fn is_session_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=SESSION_LIMIT).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(plain)
}

/// Why a harness cannot think with a provider's model.
fn refusal(harness: Harness, provider: Provider) -> Option<String> {
    let needed = match harness {
        Harness::Builtin => return None,
        Harness::ClaudeCode => Provider::Anthropic,
        Harness::Codex => Provider::OpenaiResponses,
        Harness::Opencode | Harness::GrokBuild => {
            return (provider == Provider::Scripted)
                .then(|| format!("must name a real model: `{harness}` has no scripted one"));
        }
    };
    (provider != needed)
        .then(|| format!("must be `{}`, which is what `{harness}` speaks", needed.as_str()))
}

fn provider(config: &Value) -> Provider {
    // The config has been read as one before, so only a missing one is none.
    serde_json::from_value(config["model"]["provider"].clone()).unwrap_or(Provider::Scripted)
}

fn inline(origin: &Origin) -> Option<&Value> {
    match origin {
        Origin::Callbacks { .. } => None,
        Origin::Inline { config, .. } => Some(config.expose()),
    }
}
