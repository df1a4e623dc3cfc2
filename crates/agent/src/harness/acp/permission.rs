//! What the tools of OpenCode and Grok Build do, in the words of a policy, and
//! how the protocol says what the policy says.

use serde_json::{Value, json};

use super::call::Shown;
use crate::harness::job::BRIDGE;
use crate::policy::{Action, Ruled};

/// Tools that run commands.
const SHELLS: &[&str] = &["bash", "run_terminal_command"];
/// Tools that write files.
const WRITERS: &[&str] = &[
    "apply_patch",
    "delete_file",
    "edit",
    "multiedit",
    "patch",
    "search_replace",
    "write",
    "write_file",
];
/// Tools that read the web.
const READERS_OF_THE_WEB: &[&str] =
    &["codesearch", "open_page", "web_fetch", "web_search", "webfetch", "websearch"];
/// Tools that look, take notes or start what asks for itself.
const LOOKERS: &[&str] = &[
    "get_command_or_subagent_output",
    "glob",
    "grep",
    "list",
    "list_dir",
    "lsp",
    "read",
    "read_file",
    "search_tool",
    "skill",
    "spawn_subagent",
    "task",
    "todo_write",
    "todoread",
    "todowrite",
];
/// Fields in which tools are given a path.
const PATHS: &[&str] = &["filePath", "file_path", "filepath", "path", "target_file"];

/// What a call does. A tool that we do not know is judged by its kind.
pub(super) fn action<'a>(shown: &'a Shown, tool_call: &'a Value) -> Action<'a> {
    let (name, kind) = (shown.name.as_str(), tool_call["kind"].as_str().unwrap_or_default());
    let text = |field: &str| shown.args[field].as_str().or(tool_call["rawInput"][field].as_str());
    let is = |names: &[&str], kinds: &[&str]| {
        names.contains(&name) || (!is_known(name) && kinds.contains(&kind))
    };
    if is(SHELLS, &["execute"]) {
        return Action::Command(text("command").unwrap_or_default());
    }
    if is(WRITERS, &["edit", "delete", "move"]) {
        let place = || tool_call["locations"][0]["path"].as_str();
        let path = PATHS.iter().find_map(|field| text(field)).or_else(place);
        return Action::FileWrite(path.unwrap_or_default());
    }
    if is(READERS_OF_THE_WEB, &["fetch"]) {
        return Action::Network(text("url").or(text("query")).unwrap_or_default());
    }
    if is(LOOKERS, &["read", "search", "think"]) {
        return Action::Look(name);
    }
    let bridged = name.strip_prefix("mcp__").and_then(|name| name.strip_prefix(BRIDGE));
    Action::Tool(bridged.and_then(|name| name.strip_prefix("__")).unwrap_or(name))
}

/// The answer to a question, by the one of its options that says the same.
pub(super) fn answer(ruled: &Ruled, options: &Value) -> Value {
    let wanted = match ruled {
        Ruled::Allow => ["allow_once", "allow_always"],
        Ruled::Deny(_) => ["reject_once", "reject_always"],
    };
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let chosen = wanted.iter().find_map(|wanted| {
        options.iter().find(|option| option["kind"] == *wanted)?["optionId"].as_str()
    });
    match chosen {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

fn is_known(name: &str) -> bool {
    let lists = [SHELLS, WRITERS, READERS_OF_THE_WEB, LOOKERS];
    name.starts_with("mcp__") || lists.iter().any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::call::{Shown, Teller};
    use super::{Action, Ruled, action, answer};

    #[track_caller]
    fn check(name: &str, args: Value, tool_call: Value, expected: Action<'_>) {
        let shown = Shown { name: name.to_owned(), args, teller: Teller::Adapter };
        assert_eq!(action(&shown, &tool_call), expected, "{name}");
    }

    #[test]
    fn every_kind_of_tool_is_seen_as_what_it_does() {
        let none = || json!({});
        check("bash", json!({"command": "ls"}), none(), Action::Command("ls"));
        check("bash", none(), json!({"rawInput": {"command": "ls"}}), Action::Command("ls"));
        check("write", json!({"filePath": "/w/a"}), none(), Action::FileWrite("/w/a"));
        check("edit", none(), json!({"locations": [{"path": "a"}]}), Action::FileWrite("a"));
        check("search_replace", json!({"file_path": "a"}), none(), Action::FileWrite("a"));
        check("webfetch", json!({"url": "http://h/"}), none(), Action::Network("http://h/"));
        check("web_search", json!({"query": "q"}), none(), Action::Network("q"));
        // A directory outside is asked about as another kind of thing.
        check("read", none(), json!({"kind": "other"}), Action::Look("read"));
        check("mcp__mayfly__x", none(), json!({"kind": "other"}), Action::Tool("x"));
        check("mcp__a__x", none(), json!({"kind": "execute"}), Action::Tool("mcp__a__x"));
        check("new", json!({"command": "ls"}), json!({"kind": "execute"}), Action::Command("ls"));
        check("new", none(), json!({"kind": "read"}), Action::Look("new"));
        check("new", none(), none(), Action::Tool("new"));
    }

    #[test]
    fn a_question_is_answered_for_this_time_only() {
        let option = |kind: &str| json!({"optionId": format!("{kind}!"), "kind": kind});
        let options = json!([option("allow_always"), option("allow_once"), option("reject_once")]);
        let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
        assert_eq!(answer(&Ruled::Allow, &options), selected("allow_once!"));
        let no = Ruled::Deny(String::new());
        assert_eq!(answer(&no, &options), selected("reject_once!"));
        assert_eq!(answer(&no, &json!([])), json!({"outcome": {"outcome": "cancelled"}}));
        assert_eq!(answer(&no, &json!(null)), json!({"outcome": {"outcome": "cancelled"}}));
    }
}
