//! The caller's tools as functions of a program.

use serde_json::Value;
use wire::agent::HostTool;

use super::{Language, signature};

/// What the names of the functions begin with.
const PREFIX: &str = "external_";
/// Longest description of one function, in letters.
const DESCRIPTION: usize = 400;
/// Longest list of functions, in bytes; those after it are only named.
const LIST: usize = 16 << 10;

/// A tool under a name that both languages take.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) identifier: String,
    pub(super) tool: &'a HostTool,
}

/// One function for each tool that a program can wait for.
pub(super) fn of(tools: &[HostTool]) -> Vec<Function<'_>> {
    let mut functions: Vec<Function<'_>> = Vec::new();
    for tool in tools.iter().filter(|tool| !tool.deferred) {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        let name: String = tool.name.chars().map(plain).collect();
        let taken = |identifier: &str| functions.iter().any(|one| one.identifier == identifier);
        let mut identifier = format!("{PREFIX}{name}");
        let mut number = 2;
        while taken(&identifier) {
            identifier = format!("{PREFIX}{name}_{number}");
            number += 1;
        }
        functions.push(Function { identifier, tool });
    }
    functions
}

/// The functions as a model reads of them.
pub(super) fn listed(functions: &[Function<'_>], language: Language) -> String {
    if functions.is_empty() {
        return "There are no external functions.".to_owned();
    }
    let mut list = String::from("These functions call tools:\n");
    let mut unlisted = Vec::new();
    for Function { identifier, tool } in functions {
        let description = one_line(&tool.description);
        let arguments = signature::of(&tool.parameters);
        let optional = if has_required(&tool.parameters) { "" } else { "?" };
        let line = match language {
            Language::TypeScript => format!(
                "/** {} */\nfunction {identifier}(args{optional}: {arguments}): Promise<any>\n",
                description.replace("*/", "* /"),
            ),
            Language::Python => format!("# {description}\n{identifier}(args: {arguments})\n"),
        };
        if list.len() + line.len() <= LIST {
            list.push_str(&line);
        } else {
            unlisted.push(identifier.as_str());
        }
    }
    if !unlisted.is_empty() {
        let mut names = unlisted.join(", ");
        names.truncate(LIST);
        list.push_str(&format!("And: {names}\n"));
    }
    list
}

fn has_required(schema: &Value) -> bool {
    schema["required"].as_array().is_some_and(|names| !names.is_empty())
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(DESCRIPTION).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::agent::HostTool;

    use super::{LIST, Language, listed, of};

    fn tool(name: &str) -> HostTool {
        let parameters = json!({"properties": {"x": {"type": "number"}}, "required": ["x"]});
        let description = "Does\n it. */".to_owned();
        HostTool { name: name.to_owned(), description, parameters, deferred: false }
    }

    #[test]
    fn names_are_identifiers_and_each_is_its_own() {
        let tools = ["look", "look-up", "look_up", "look-up_2", "7"].map(tool);
        let names: Vec<String> = of(&tools).into_iter().map(|one| one.identifier).collect();
        let expected = [
            "external_look",
            "external_look_up",
            "external_look_up_2",
            "external_look_up_2_2",
            "external_7",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn what_no_program_can_wait_for_is_no_function() {
        let asked = HostTool { deferred: true, ..tool("ask_user") };
        let tools = [asked, tool("look")];
        let functions = of(&tools);
        assert!(functions.len() == 1 && functions[0].identifier == "external_look");
    }

    #[test]
    fn functions_are_listed_with_their_types() {
        let tools = [tool("look")];
        let typescript = listed(&of(&tools), Language::TypeScript);
        let expected =
            "/** Does it. * / */\nfunction external_look(args: { x: number }): Promise<any>";
        assert!(typescript.contains(expected), "{typescript}");
        let python = listed(&of(&tools), Language::Python);
        assert!(python.contains("# Does it. */\nexternal_look(args: { x: number })"), "{python}");
        let many: Vec<HostTool> = (0..2000).map(|n| tool(&format!("tool{n}"))).collect();
        assert!(listed(&of(&many), Language::Python).len() < 2 * LIST + 100);
    }
}
