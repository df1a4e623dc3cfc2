//! What a config says about upstreams, taken out of it on its way inside.
//!
//! A config names addresses and keys; the sandbox gets the same document with
//! addresses of the host link and without keys. Fields nobody here knows stay
//! as they are.

use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wire::{
    Secret,
    agent::{Provider, SkillId, SkillVersion},
    exposed,
};

use super::{
    target::Target,
    tools::{self, Tool},
};

/// The upstreams a config names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Addresses {
    pub(super) assets: Option<Target>,
    pub(super) skills: Vec<Skill>,
    pub(super) model: Option<Model>,
    /// One for each server of the config; those inside the sandbox have none.
    pub(super) mcp: Vec<Option<Mcp>>,
    pub(super) workspace: Option<Target>,
    /// The caller's tools; where they are executed is not for the sandbox.
    pub(super) tools: Vec<Tool>,
    /// Not an address, but as little for the sandbox alone to know.
    #[serde(default)]
    pub(super) max_runtime_sec: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Skill {
    pub(super) id: SkillId,
    pub(super) version: SkillVersion,
    pub(super) target: Target,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Model {
    pub(super) provider: Provider,
    pub(super) base: Target,
    pub(super) key: Option<Header>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mcp {
    pub(super) target: Target,
    pub(super) headers: Vec<Header>,
}

/// A header that the host adds. Its value is a secret, and valid as a header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    name: String,
    #[serde(with = "exposed")]
    value: Secret<String>,
}

/// The config cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct BadConfig {
    field: String,
    problem: String,
}

/// Takes the addresses and keys out of `config` and puts addresses below `link`
/// in their place. `agent` is the workspace's address for this run; an inline
/// config has none, so its own addresses are all absolute.
pub(super) fn take(
    config: &mut Value,
    link: &str,
    agent: Option<&Target>,
) -> Result<Addresses, BadConfig> {
    let config = config.as_object_mut().ok_or_else(|| bad("config", "is not an object"))?;
    Ok(Addresses {
        assets: take_place(config, "assets", &format!("{link}/assets"), agent)?,
        skills: take_skills(config, link, agent)?,
        model: take_model(config)?,
        mcp: take_mcp(config, link)?,
        workspace: take_place(config, "workspace", &format!("{link}/workspace"), agent)?,
        tools: tools::take(config)?,
        // One that is no number is the agent's to refuse.
        max_runtime_sec: config.get("max_runtime_sec").and_then(Value::as_u64),
    })
}

/// An object that has a `url` and nothing else for us.
fn take_place(
    config: &mut Map<String, Value>,
    field: &str,
    inside: &str,
    agent: Option<&Target>,
) -> Result<Option<Target>, BadConfig> {
    let Some(place) = object(config, field)? else { return Ok(None) };
    let name = format!("{field}.url");
    let Some(url) = text(place, "url", &name)? else { return Ok(None) };
    let target = match agent {
        Some(agent) => agent.join(&url),
        None => Target::parse(&url),
    };
    let target = target.map_err(|err| bad(&name, err))?;
    place.insert("url".to_owned(), inside.into());
    Ok(Some(target))
}

fn take_skills(
    config: &mut Map<String, Value>,
    link: &str,
    agent: Option<&Target>,
) -> Result<Vec<Skill>, BadConfig> {
    let mut skills = Vec::new();
    for (index, skill) in list(config, "skills")?.iter_mut().enumerate() {
        let field = format!("skills[{index}]");
        let skill = skill.as_object_mut().ok_or_else(|| bad(&field, "is not an object"))?;
        let [id, version, url] = ["id", "version", "url"].map(|part| format!("{field}.{part}"));
        let given = text(skill, "id", &id)?.unwrap_or_default();
        let parsed_id =
            SkillId::parse(&given).map_err(|err| bad(&id, format!("is wrong: {err}")))?;
        let given = text(skill, "version", &version)?.unwrap_or_default();
        let parsed_version =
            SkillVersion::parse(&given).map_err(|err| bad(&version, format!("is wrong: {err}")))?;
        let rest = format!("/skills/{parsed_id}/{parsed_version}");
        let given = text(skill, "url", &url)?.map(|url| Target::parse(&url));
        let target = match (given, agent) {
            (Some(Ok(target)), _) => target,
            // Relative or missing: the workspace has it in its usual place.
            (Some(Err(_)) | None, Some(agent)) => agent.below(&rest, None),
            (Some(Err(err)), None) => return Err(bad(&url, err)),
            (None, None) => return Err(bad(&url, "is missing")),
        };
        skill.insert("url".to_owned(), format!("{link}{rest}").into());
        skills.push(Skill { id: parsed_id, version: parsed_version, target });
    }
    Ok(skills)
}

fn take_model(config: &mut Map<String, Value>) -> Result<Option<Model>, BadConfig> {
    let Some(model) = object(config, "model")? else { return Ok(None) };
    // Both leave the document, whoever the provider is.
    let [base, key] = [("base_url", "model.base_url"), ("api_key", "model.api_key")].map(
        |(part, field)| -> Result<Option<String>, BadConfig> {
            let value = text(model, part, field);
            model.remove(part);
            value
        },
    );
    let (base, key) = (base?, key?);
    let provider = model.get("provider").cloned().unwrap_or_default();
    // An unknown one is the agent's to refuse: it knows what it speaks.
    let Ok(provider) = serde_json::from_value(provider) else { return Ok(None) };
    let (usual, header) = match provider {
        Provider::Anthropic => ("https://api.anthropic.com", "x-api-key"),
        Provider::Openai | Provider::OpenaiResponses => {
            ("https://api.openai.com/v1", "authorization")
        }
        Provider::Scripted => return Ok(None),
    };
    let base = base.filter(|base| !base.is_empty());
    let base = Target::parse(base.as_deref().unwrap_or(usual))
        .map_err(|err| bad("model.base_url", err))?;
    let key = key.filter(|key| !key.is_empty()).map(|key| match header {
        "authorization" => Header::new("model.api_key", header, format!("Bearer {key}")),
        _ => Header::new("model.api_key", header, key),
    });
    Ok(Some(Model { provider, base, key: key.transpose()? }))
}

fn take_mcp(config: &mut Map<String, Value>, link: &str) -> Result<Vec<Option<Mcp>>, BadConfig> {
    let mut servers = Vec::new();
    for (index, server) in list(config, "mcp_servers")?.iter_mut().enumerate() {
        let field = format!("mcp_servers[{index}]");
        let server = server.as_object_mut().ok_or_else(|| bad(&field, "is not an object"))?;
        let [url, named] = ["url", "headers"].map(|part| format!("{field}.{part}"));
        let Some(address) = text(server, "url", &url)? else {
            servers.push(None);
            continue;
        };
        let target = Target::parse(&address).map_err(|err| bad(&url, err))?;
        let headers = take_headers(server, &named)?;
        server.insert("url".to_owned(), format!("{link}/mcp/{index}").into());
        servers.push(Some(Mcp { target, headers }));
    }
    Ok(servers)
}

/// Takes the headers out of an object that has some.
pub(super) fn take_headers(
    object: &mut Map<String, Value>,
    field: &str,
) -> Result<Vec<Header>, BadConfig> {
    let given = match object.remove("headers") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(bad(field, "is not an object")),
    };
    let headers = given.into_iter().map(|(name, value)| {
        let field = format!("{field}.{name}");
        let Value::String(value) = value else { return Err(bad(&field, "is not a string")) };
        Header::new(&field, &name, value)
    });
    headers.collect()
}

/// A header that was checked elsewhere.
impl From<(String, Secret<String>)> for Header {
    fn from((name, value): (String, Secret<String>)) -> Header {
        Header { name, value }
    }
}

impl Header {
    fn new(field: &str, name: &str, value: String) -> Result<Header, BadConfig> {
        let header = Header { name: name.to_owned(), value: Secret::new(value) };
        header.pair().ok_or_else(|| bad(field, "cannot be sent as a header"))?;
        Ok(header)
    }

    /// The header, marked so that no log of the client shows it.
    pub(super) fn pair(&self) -> Option<(HeaderName, HeaderValue)> {
        let name = HeaderName::from_bytes(self.name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(self.value.expose()).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}

fn object<'a>(
    config: &'a mut Map<String, Value>,
    field: &str,
) -> Result<Option<&'a mut Map<String, Value>>, BadConfig> {
    match config.get_mut(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(bad(field, "is not an object")),
    }
}

pub(super) fn list<'a>(
    config: &'a mut Map<String, Value>,
    field: &str,
) -> Result<&'a mut [Value], BadConfig> {
    match config.get_mut(field) {
        None | Some(Value::Null) => Ok(&mut []),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(bad(field, "is not a list")),
    }
}

pub(super) fn text(
    object: &Map<String, Value>,
    part: &str,
    field: &str,
) -> Result<Option<String>, BadConfig> {
    match object.get(part) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(bad(field, "is not a string")),
    }
}

pub(super) fn bad(field: &str, problem: impl ToString) -> BadConfig {
    BadConfig { field: field.to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests;
