//! A tool call as the two CLIs tell it: what it is called in the log, what it
//! was given and what it returned.
//!
//! OpenCode names the tool in the title of the first notice, and an MCP tool
//! `server_tool`. Grok Build names it in its own metadata and hides MCP tools
//! behind `use_tool`. In the log both are called `mcp__server__tool`.

use serde_json::{Value, json};
use wire::run::Outcome;

use crate::harness::job::BRIDGE;

/// Whose way of telling it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::harness) enum Dialect {
    Opencode,
    Grok,
}

/// What a call is for the log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) args: Value,
    pub(super) teller: Teller,
}

/// Who tells the log of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Teller {
    /// We do.
    Adapter,
    /// The host does: it is a tool of the caller's.
    Host,
}

/// Reads the calls of one CLI.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    dialect: Dialect,
    /// The MCP servers that the CLI was told of, as it writes their names.
    servers: Vec<(String, String)>,
}

impl Reader {
    pub(super) fn new(dialect: Dialect, servers: &[String]) -> Reader {
        let servers = servers.iter().map(|name| (plain(name), name.clone())).collect();
        Reader { dialect, servers }
    }

    /// What a call is called, by the first notice of it.
    pub(super) fn name<'u>(&self, update: &'u Value) -> &'u str {
        let own = match self.dialect {
            Dialect::Opencode => None,
            Dialect::Grok => update["_meta"]["x.ai/tool"]["name"].as_str(),
        };
        let title = || update["title"].as_str().or(update["kind"].as_str());
        own.or_else(title).unwrap_or("tool")
    }

    /// What the log says of a call with that name and these arguments.
    pub(super) fn shown(&self, name: &str, args: &Value) -> Shown {
        match self.dialect {
            Dialect::Opencode => self.shown_by_opencode(name, args),
            Dialect::Grok => self.shown_by_grok(name, args),
        }
    }

    fn shown_by_opencode(&self, name: &str, args: &Value) -> Shown {
        let mut args = args.clone();
        if let (Value::Object(fields), "bash") = (&mut args, name) {
            // The model did not say this: it is there for whoever shows it.
            fields.remove("cwd");
        }
        // One name may begin as another one does: the longest is meant.
        let servers = self.servers.iter().filter_map(|(written, server)| {
            let tool = name.strip_prefix(written.as_str())?.strip_prefix('_')?;
            Some((server.as_str(), tool))
        });
        let server = servers.max_by_key(|(server, _)| server.len());
        match server {
            Some((server, tool)) => of_server(server, tool, args),
            None => Shown { name: name.to_owned(), args, teller: Teller::Adapter },
        }
    }

    fn shown_by_grok(&self, name: &str, args: &Value) -> Shown {
        let inner = args["tool_name"].as_str().filter(|_| name == "use_tool");
        match inner.and_then(|inner| inner.split_once("__")) {
            Some((server, tool)) => of_server(server, tool, args["tool_input"].clone()),
            None => Shown { name: name.to_owned(), args: args.clone(), teller: Teller::Adapter },
        }
    }
}

fn of_server(server: &str, tool: &str, args: Value) -> Shown {
    let teller = if server == BRIDGE { Teller::Host } else { Teller::Adapter };
    Shown { name: format!("mcp__{server}__{tool}"), args, teller }
}

/// A name as OpenCode writes it in the name of a tool.
fn plain(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    name.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect()
}

/// How a call went that returned.
pub(super) fn succeeded(update: &Value, limit: u64) -> Outcome {
    let (result, truncated) = fit(returned(update), limit);
    let raw = &update["rawOutput"];
    let exit = raw["metadata"]["exit"].as_i64().or(raw["exit_code"].as_i64());
    match exit {
        Some(code) if code != 0 => {
            Outcome::Failed { error: format!("exit status {code}"), result: Some(result) }
        }
        _ => Outcome::Succeeded { result, truncated },
    }
}

/// What a call says that failed.
pub(super) fn complaint(update: &Value) -> String {
    let (told, raw) = (content(update), update["rawOutput"]["error"].as_str());
    let told = if told.trim().is_empty() { raw.unwrap_or_default() } else { &told };
    match told.trim() {
        "" => "the tool failed".to_owned(),
        told => fit(Value::from(told), 4 << 10).0.as_str().unwrap_or_default().to_owned(),
    }
}

/// What a call returned: as text where there is one for the model.
fn returned(update: &Value) -> Value {
    let raw = &update["rawOutput"];
    if let Some(output) = raw["output"].as_str() {
        return Value::from(output);
    }
    if let Some(output) = raw["output"].get("OkayOutput") {
        return output.clone();
    }
    let content = content(update);
    if !content.is_empty() {
        return Value::from(content);
    }
    // Grok Build has one object for each kind of result in it.
    let fields = raw.as_object().into_iter().flat_map(|fields| fields.values());
    let told = fields.filter_map(|kind| kind["tool_output_for_prompt"].as_str()).next();
    told.map_or_else(|| json!(""), Value::from)
}

/// The texts of a notice; differences of files are told by file events.
fn content(update: &Value) -> String {
    let blocks = update["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["content"]["text"].as_str()).collect();
    texts.join("\n")
}

/// As much of a value as that many bytes of JSON hold, and whether it was cut.
fn fit(value: Value, limit: u64) -> (Value, bool) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let whole = value.to_string();
    if whole.len() <= limit {
        return (value, false);
    }
    let text = value.as_str().unwrap_or(&whole);
    let mut used = 2;
    let end = text.char_indices().find(|(_, letter)| {
        used += match letter {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            letter if letter.is_control() => 6,
            letter => letter.len_utf8(),
        };
        used > limit
    });
    let end = end.map_or(text.len(), |(at, _)| at);
    (Value::from(&text[..end]), true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::run::Outcome;

    use super::{Dialect, Reader, Teller, complaint, fit, succeeded};

    #[track_caller]
    fn check(dialect: Dialect, name: &str, args: Value, expected: (&str, Value, Teller)) {
        let reader = Reader::new(dialect, &["mayfly", "my facts", "mayfly_2"].map(str::to_owned));
        let shown = reader.shown(name, &args);
        let expected = (expected.0.to_owned(), expected.1, expected.2);
        assert_eq!((shown.name, shown.args, shown.teller), expected);
    }

    #[test]
    fn tools_of_servers_are_called_alike_and_those_of_the_caller_are_the_hosts() {
        let (ours, host) = (Teller::Adapter, Teller::Host);
        let opencode = Dialect::Opencode;
        check(opencode, "write", json!({"cwd": 1}), ("write", json!({"cwd": 1}), ours));
        let args = json!({"command": "ls", "cwd": "/"});
        check(opencode, "bash", args, ("bash", json!({"command": "ls"}), ours));
        check(opencode, "mayfly_x", json!({}), ("mcp__mayfly__x", json!({}), host));
        check(opencode, "my_facts_x_y", json!({}), ("mcp__my facts__x_y", json!({}), ours));
        check(opencode, "mayfly_2_x", json!({}), ("mcp__mayfly_2__x", json!({}), ours));
        check(opencode, "other_x", json!({}), ("other_x", json!({}), ours));
        let grok = Dialect::Grok;
        check(grok, "read_file", json!({"a": 1}), ("read_file", json!({"a": 1}), ours));
        let args = |name: &str| json!({"tool_name": name, "tool_input": {"a": 1}});
        let inner = json!({"a": 1});
        check(grok, "use_tool", args("mayfly__x"), ("mcp__mayfly__x", inner.clone(), host));
        check(grok, "use_tool", args("my__x"), ("mcp__my__x", inner, ours));
        check(grok, "use_tool", args("odd"), ("use_tool", args("odd"), ours));
    }

    #[test]
    fn a_result_is_the_text_that_the_model_was_given() {
        let check = |update: Value, expected: Outcome| {
            assert_eq!(succeeded(&update, 100), expected, "{update}");
        };
        let good = |result: Value| Outcome::Succeeded { result, truncated: false };
        let content = json!([{"type": "content", "content": {"type": "text", "text": "c"}}]);
        check(json!({"rawOutput": {"output": "o"}, "content": content}), good(json!("o")));
        check(json!({"rawOutput": {"output": [111]}, "content": content}), good(json!("c")));
        let okay = json!({"type": "MCP", "output": {"OkayOutput": {"a": 1}}});
        check(json!({"rawOutput": okay}), good(json!({"a": 1})));
        let edit = json!({"type": "X", "EditsApplied": {"tool_output_for_prompt": "e"}});
        check(json!({"rawOutput": edit, "content": [{"type": "diff"}]}), good(json!("e")));
        check(json!({}), good(json!("")));
        let failed = |code: i64| Outcome::Failed {
            error: format!("exit status {code}"),
            result: Some(json!("c")),
        };
        check(json!({"rawOutput": {"exit_code": 3}, "content": content}), failed(3));
        check(json!({"rawOutput": {"metadata": {"exit": 4}}, "content": content}), failed(4));
        check(json!({"rawOutput": {"exit_code": 0}, "content": content}), good(json!("c")));
    }

    #[test]
    fn a_failure_has_words_in_any_case() {
        assert_eq!(complaint(&json!({})), "the tool failed");
        assert_eq!(complaint(&json!({"rawOutput": {"error": "no"}})), "no");
        let content = json!([{"content": {"text": "why"}}]);
        let update = json!({"content": content, "rawOutput": {"error": "failed"}});
        assert_eq!(complaint(&update), "why");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let (cut, truncated) = fit(json!("äöü\u{1}".repeat(100)), 50);
        assert!(truncated && cut.to_string().len() <= 50, "{cut}");
        let (cut, truncated) = fit(json!({"a": ["b".repeat(100)]}), 50);
        assert!(truncated && cut.is_string() && cut.to_string().len() <= 50, "{cut}");
    }
}
