//! A tool of the caller's, and where it is executed. The dispatch names some,
//! the config others; of the latter the sandbox sees everything but the place.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wire::agent::HostTool;

use crate::{
    dispatch::{Executor, GivenTool},
    link::addresses::{BadConfig, Header, bad, list, take_headers, text},
    link::target::Target,
};

/// A tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::link) struct Tool {
    pub(super) tool: HostTool,
    pub(super) place: Place,
}

/// Where a tool is executed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Place {
    /// By a server of the caller's.
    Http { url: String, headers: Vec<Header>, timeout_ms: Option<u64> },
    /// By the client itself, once the run is over.
    Client,
}

impl Tool {
    pub(super) fn name(&self) -> &str {
        &self.tool.name
    }
}

impl From<GivenTool> for Tool {
    fn from(GivenTool { tool, executor }: GivenTool) -> Tool {
        let place = match executor {
            Executor::Http { url, headers, timeout } => Place::Http {
                url,
                headers: headers.into_iter().map(Header::from).collect(),
                timeout_ms: timeout.map(milliseconds),
            },
            Executor::Client => Place::Client,
        };
        Tool { tool, place }
    }
}

/// Takes the tools of a config and leaves in it what the agent may see of them.
/// One without an address is the client's own to execute.
pub(in crate::link) fn take(config: &mut Map<String, Value>) -> Result<Vec<Tool>, BadConfig> {
    let mut tools: Vec<Tool> = Vec::new();
    for (index, item) in list(config, "tools")?.iter_mut().enumerate() {
        let field = format!("tools[{index}]");
        if index >= HostTool::MOST {
            return Err(bad("tools", format!("has more than {} items", HostTool::MOST)));
        }
        let fields = item.as_object_mut().ok_or_else(|| bad(&field, "is not an object"))?;
        let tool = take_one(&field, fields)?;
        if tools.iter().any(|other| other.name() == tool.name()) {
            return Err(bad(&field, format!("has the name of another tool, `{}`", tool.name())));
        }
        *item = serde_json::json!(tool.tool);
        tools.push(tool);
    }
    Ok(tools)
}

fn take_one(field: &str, fields: &mut Map<String, Value>) -> Result<Tool, BadConfig> {
    let [named, described, schema, address, limit] =
        ["name", "description", "parameters", "url", "timeout_ms"]
            .map(|part| format!("{field}.{part}"));
    let name = text(fields, "name", &named)?.unwrap_or_default();
    if !HostTool::is_name(&name) {
        return Err(bad(&named, "is not 1 to 64 letters, digits, `_` and `-`"));
    }
    let description = text(fields, "description", &described)?.unwrap_or_default();
    let parameters = match fields.remove("parameters") {
        None | Some(Value::Null) => HostTool::any_object(),
        Some(parameters @ Value::Object(_)) => parameters,
        Some(_) => return Err(bad(&schema, "is not an object")),
    };
    let headers = take_headers(fields, &format!("{field}.headers"))?;
    let timeout_ms = match fields.get("timeout_ms") {
        None | Some(Value::Null) => None,
        Some(limited) => {
            Some(limited.as_u64().ok_or_else(|| bad(&limit, "is not a whole number"))?)
        }
    };
    let place = match text(fields, "url", &address)? {
        Some(url) => {
            Target::parse(&url).map_err(|err| bad(&address, err))?;
            Place::Http { url, headers, timeout_ms }
        }
        None => Place::Client,
    };
    let deferred = matches!(place, Place::Client);
    Ok(Tool { tool: HostTool { name, description, parameters, deferred }, place })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Place, take};

    #[test]
    fn the_agent_sees_everything_but_the_place() {
        let config = json!({"tools": [
            {"name": "look_up", "description": "Looks.", "parameters": {"type": "object"},
             "url": "http://h/t?key=1", "headers": {"X-Key": "secret"}, "timeout_ms": 5},
            {"name": "ask", "description": null},
        ]});
        let Value::Object(mut config) = config else { panic!() };
        let tools = take(&mut config).unwrap();
        assert!(matches!(tools[0].place, Place::Http { timeout_ms: Some(5), .. }));
        assert!(matches!(tools[1].place, Place::Client));
        let shown = json!([
            {"name": "look_up", "description": "Looks.", "parameters": {"type": "object"}},
            {"name": "ask", "description": "", "parameters": {"type": "object"}, "deferred": true},
        ]);
        assert_eq!(config["tools"], shown);
        assert!(!format!("{tools:?}").contains("secret"));
    }

    #[test]
    fn a_tool_that_cannot_be_used_is_refused_by_its_field() {
        let check = |tool: Value, expected: &str| {
            let Value::Object(mut config) = json!({"tools": [tool]}) else { panic!() };
            let refused = take(&mut config).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        };
        check(json!(1), "`tools[0]`");
        check(json!({}), "`tools[0].name`");
        check(json!({"name": "a b"}), "`tools[0].name`");
        check(json!({"name": "a".repeat(65)}), "`tools[0].name`");
        check(json!({"name": "a", "parameters": []}), "`tools[0].parameters`");
        check(json!({"name": "a", "url": "/x"}), "`tools[0].url`");
        check(json!({"name": "a", "timeout_ms": -1}), "`tools[0].timeout_ms`");
        check(json!({"name": "a", "headers": {"x": "a\nb"}}), "`tools[0].headers.x`");
        let Value::Object(mut twice) = json!({"tools": [{"name": "a"}, {"name": "a"}]}) else {
            panic!()
        };
        assert!(take(&mut twice).unwrap_err().to_string().contains("another tool"));
        let Value::Object(mut many) = json!({"tools": vec![json!({"name": "a"}); 129]}) else {
            panic!()
        };
        assert!(take(&mut many).is_err());
    }
}
