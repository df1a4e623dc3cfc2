//! The caller's own tools: what the agent sees of them, and where they are
//! executed.

use std::{collections::HashSet, time::Duration};

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use wire::{Secret, agent::HostTool};

use super::{TEXT_LIMIT, hook};
use crate::fields::{BadBody, Fields};

/// Longest description, and largest schema.
const DESCRIPTION: usize = 64 << 10;
/// Most headers of one tool.
const HEADERS: usize = 64;

/// A tool of the caller's.
#[derive(Clone, Debug)]
pub(crate) struct GivenTool {
    /// What the agent sees.
    pub(crate) tool: HostTool,
    /// Where it is executed.
    pub(crate) executor: Executor,
}

/// Where a tool is executed.
#[derive(Clone, Debug)]
pub(crate) enum Executor {
    /// By a server of the caller's.
    Http {
        url: String,
        headers: Vec<(String, Secret<String>)>,
        /// Longest time of a call; without it that of every tool.
        timeout: Option<Duration>,
    },
    /// By the client itself, once the run is over.
    Client,
}

impl GivenTool {
    /// Reads a list of tools that are executed by servers.
    pub(crate) fn take_all(fields: &mut Fields) -> Result<Vec<GivenTool>, BadBody> {
        let items = fields.list("tools", HostTool::MOST)?;
        items.into_iter().map(|(path, item)| GivenTool::parse(&path, item)).collect()
    }

    /// A tool that the client executes itself. `path` is its name in mistakes.
    pub(crate) fn of_client(path: &str, tool: HostTool) -> Result<GivenTool, BadBody> {
        checked(path, GivenTool { tool, executor: Executor::Client })
    }

    fn parse(path: &str, item: Value) -> Result<GivenTool, BadBody> {
        let mut fields = Fields::of_value(path, item)?;
        let name = fields.text("name", TEXT_LIMIT)?.ok_or_else(|| fields.missing("name"))?;
        let description = fields.text("description", DESCRIPTION)?.unwrap_or_default();
        let parameters = fields.take("parameters")?.unwrap_or_else(HostTool::any_object);
        let url = fields.text("url", TEXT_LIMIT)?.ok_or_else(|| fields.missing("url"))?;
        let url =
            hook(&url).ok_or_else(|| fields.wrong("url", "must be an absolute http(s) address"))?;
        let headers = headers(fields.inside("headers")?)?;
        let timeout = fields.count("timeout_ms")?.map(Duration::from_millis);
        // A field that is not kept, such as an unknown kind of authorisation, is
        // worse than none.
        fields.nothing_else()?;
        let tool = HostTool { name, description, parameters, deferred: false };
        checked(path, GivenTool { tool, executor: Executor::Http { url, headers, timeout } })
    }
}

/// Refuses too many tools, and two of one name.
pub(crate) fn check_names(field: &str, tools: &[GivenTool]) -> Result<(), BadBody> {
    let wrong = |must: String| BadBody::Wrong { field: field.to_owned(), must };
    if tools.len() > HostTool::MOST {
        return Err(wrong(format!("must have at most {} items", HostTool::MOST)));
    }
    let mut names = HashSet::new();
    match tools.iter().find(|given| !names.insert(given.tool.name.as_str())) {
        None => Ok(()),
        Some(given) => Err(wrong(format!("must not name `{}` twice", given.tool.name))),
    }
}

fn checked(path: &str, given: GivenTool) -> Result<GivenTool, BadBody> {
    let wrong = |part: &str, must: &str| BadBody::Wrong {
        field: format!("{path}.{part}"),
        must: must.to_owned(),
    };
    let tool = &given.tool;
    if !HostTool::is_name(&tool.name) {
        return Err(wrong("name", "must be 1 to 64 letters, digits, `_` and `-`"));
    }
    if tool.description.len() > DESCRIPTION {
        return Err(wrong("description", &format!("must be at most {DESCRIPTION} bytes long")));
    }
    if !tool.parameters.is_object() {
        return Err(wrong("parameters", "must be a JSON Schema, as an object"));
    }
    if tool.parameters.to_string().len() > DESCRIPTION {
        return Err(wrong("parameters", &format!("must be at most {DESCRIPTION} bytes long")));
    }
    Ok(given)
}

fn headers(fields: Fields) -> Result<Vec<(String, Secret<String>)>, BadBody> {
    let path = fields.path().to_owned();
    let given = fields.texts()?;
    if given.len() > HEADERS {
        let must = format!("must have at most {HEADERS} items");
        return Err(BadBody::Wrong { field: path, must });
    }
    for (name, value) in &given {
        let fits =
            HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok();
        if !fits {
            let must = "cannot be sent as a header".to_owned();
            return Err(BadBody::Wrong { field: format!("{path}.{name}"), must });
        }
    }
    Ok(given.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
}
