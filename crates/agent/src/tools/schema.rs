//! The built-in tools as models see them.

use serde_json::{Value, json};

use super::Builtin;
use crate::{code_mode, model::ToolSpec, session::Session};

pub(super) fn spec(tool: Builtin, session: &Session) -> ToolSpec {
    let (description, schema) = match tool {
        Builtin::Shell => (
            "Runs a command with bash in the working directory. Returns exit_code, stdout and \
             stderr. Standard input is empty. To leave something running, start it with `&` and \
             send its output to a file.",
            object(
                json!({
                    "command": text("The command."),
                    "timeout_ms": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "After this time the command and all it started is killed.",
                    },
                }),
                &["command"],
            ),
        ),
        Builtin::ReadFile => ("Reads a text file.", object(json!({"path": text(PATH)}), &["path"])),
        Builtin::WriteFile => (
            "Writes a text file, replacing what was in it. Missing directories are made.",
            object(
                json!({"path": text(PATH), "content": text("All of it.")}),
                &["path", "content"],
            ),
        ),
        Builtin::EditFile => (
            "Replaces one piece of a text file. The old text must occur in it exactly once.",
            object(
                json!({
                    "path": text(PATH),
                    "old": text("The text to replace, with enough around it to be unique."),
                    "new": text("The text to put there."),
                }),
                &["path", "old", "new"],
            ),
        ),
        Builtin::ListFiles => (
            "Lists a directory, not what is below it.",
            object(json!({"path": text("The directory; the working directory if left out.")}), &[]),
        ),
        Builtin::SearchFiles => (
            "Searches text files for a regular expression (Rust's syntax), line by line. Binary \
             files and .git are left out.",
            object(
                json!({
                    "pattern": text("The regular expression."),
                    "path": text("A file or a directory; the working directory if left out."),
                }),
                &["pattern"],
            ),
        ),
        Builtin::RunRecipe => (
            "Runs a recipe of a skill in the working directory.",
            object(
                json!({
                    "skill": text("The skill's name."),
                    "recipe": text("The recipe's path in the skill, such as recipes/add-node.sh."),
                    "args": {
                        "type": "object",
                        "description": "Arguments, as the skill's SKILL.md describes them.",
                    },
                }),
                &["skill", "recipe"],
            ),
        ),
        Builtin::Execute(language) => return code_mode::spec(session, language),
    };
    ToolSpec { name: tool.name().to_owned(), description: description.to_owned(), schema }
}

const PATH: &str = "Absolute, or relative to the working directory.";

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
