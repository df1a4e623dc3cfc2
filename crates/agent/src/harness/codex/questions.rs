//! What Codex asks, and the items that it asks about: a question names its item,
//! and the item says what is to be done.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::items;

/// What Codex asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// May this command line be run?
    Command { item: String, line: String },
    /// May a command reach this host?
    Network { item: String, host: String },
    /// May these files be written?
    FileChange { item: String, paths: Vec<String> },
    /// May this tool of an MCP server be called?
    Tool { item: String, name: String },
    /// May its sandbox be wider?
    Permissions,
    /// An MCP server wants somebody to fill in a form.
    Form,
    /// The model wants somebody to choose.
    Choices,
    /// Something that nobody here can answer.
    Unknown,
}

/// Items that are not complete, of all threads.
#[derive(Debug, Default)]
pub(super) struct Open {
    items: BTreeMap<String, Value>,
    /// Calls of tools that there was a question about.
    asked: BTreeSet<String>,
}

impl Open {
    pub(super) fn insert(&mut self, item: Value) {
        self.items.insert(items::id(&item).to_owned(), item);
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Value> {
        self.asked.remove(id);
        self.items.remove(id)
    }

    /// What a request of Codex's asks.
    pub(super) fn question(&mut self, method: &str, params: &Value) -> Question {
        let text = |field: &str| params[field].as_str().unwrap_or_default().to_owned();
        let item = text("itemId");
        match method {
            "item/commandExecution/requestApproval" => {
                match params.pointer("/networkApprovalContext/host").and_then(Value::as_str) {
                    Some(host) => Question::Network { item, host: host.to_owned() },
                    None => {
                        // A question may leave to its item what is to be run.
                        let known = self.items.get(&item).and_then(|item| item["command"].as_str());
                        let line = params["command"].as_str().or(known).unwrap_or_default();
                        Question::Command { line: line.to_owned(), item }
                    }
                }
            }
            "item/fileChange/requestApproval" => {
                let paths = self.items.get(&item).map(items::paths).unwrap_or_default();
                let mut paths: Vec<String> = paths.into_iter().map(str::to_owned).collect();
                // A whole directory, or a patch that we never saw.
                if paths.is_empty() || params["grantRoot"].is_string() {
                    paths.push(text("grantRoot"));
                }
                Question::FileChange { item, paths }
            }
            "mcpServer/elicitation/request" => self.elicitation(params),
            "item/permissions/requestApproval" => Question::Permissions,
            "item/tool/requestUserInput" => Question::Choices,
            _ => Question::Unknown,
        }
    }

    /// A form of an MCP server's, or Codex's own about one of its tools. The
    /// latter says which call it means only in its words: it is the open one that
    /// is most like it.
    fn elicitation(&mut self, params: &Value) -> Question {
        let meta = &params["_meta"];
        if meta["codex_approval_kind"] != "mcp_tool_call" {
            return Question::Form;
        }
        let server = &params["serverName"];
        let calls = self.items.iter().filter(|(id, item)| {
            items::kind(item) == "mcpToolCall"
                && item["server"] == *server
                && !self.asked.contains(*id)
        });
        let words = params["message"].as_str().unwrap_or_default();
        let found = calls
            .max_by_key(|(_, item)| {
                let named =
                    item["tool"].as_str().map(|tool| words.contains(&format!("\"{tool}\"")));
                (named, item["arguments"] == meta["tool_params"])
            })
            .map(|(id, item)| (id.clone(), items::tool(item)));
        match found {
            Some((item, name)) => {
                self.asked.insert(item.clone());
                Question::Tool { item, name }
            }
            None => {
                let name = format!("mcp__{}", server.as_str().unwrap_or_default());
                Question::Tool { item: String::new(), name }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Open, Question};

    #[test]
    fn a_question_without_a_command_is_about_that_of_its_item() {
        let mut open = Open::default();
        open.insert(json!({"id": "c", "type": "commandExecution", "command": "rm a"}));
        let mut check = |command: Value, expected: &str| {
            let params = json!({"itemId": "c", "command": command});
            let asked = open.question("item/commandExecution/requestApproval", &params);
            let line = expected.to_owned();
            assert_eq!(asked, Question::Command { item: "c".to_owned(), line });
        };
        check(Value::Null, "rm a");
        check(json!("ls"), "ls");
    }
}
