//! `run_recipe`: a script of a skill.
//!
//! A recipe gets its arguments twice: as one JSON object on standard input,
//! and each as an environment variable, `nodeType` as `ARG_NODE_TYPE`. Texts
//! are given as they are, other values as JSON. `SKILL_DIR` is the skill's
//! directory. Output that is JSON is the result; other output is returned with
//! the exit status, as the shell does.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{Fields, Returned, ToolError, process};
use crate::{session::Session, shell::Shell, skills::Bundle};

/// Longest argument that also becomes a variable: the system limits each one
/// and all together, and standard input has them all.
const VARIABLE_BYTES: usize = 16 << 10;
/// Most of them together.
const VARIABLES_BYTES: usize = 256 << 10;

pub(super) async fn run(
    session: &Session,
    skills: &[Bundle],
    fields: &mut Fields<'_>,
) -> Result<Returned, ToolError> {
    let skill_name = fields.text("skill")?;
    let recipe_name = fields.text("recipe")?;
    let nothing = Map::new();
    let args = fields.optional_object("args")?.unwrap_or(&nothing);
    fields.end()?;
    let skill = skills.iter().find(|skill| skill.is_called(skill_name));
    let skill = skill.ok_or_else(|| fields.wrong("skill", "is none of the attached skills"))?;
    let recipe = skill.recipe(recipe_name).ok_or_else(|| {
        let known = skill.recipes.join(", ");
        fields.wrong("recipe", &format!("is none of this skill's recipes: {known}"))
    })?;
    let mut command = session.command(Shell::installed().program());
    command.arg(skill.directory.join(recipe)).envs(variables(args));
    command.env("SKILL_DIR", &skill.directory);
    let input = Value::Object(args.clone()).to_string();
    let limit = Duration::from_millis(session.limits.tool_timeout_ms);
    let bytes = session.limits.tool_result_bytes;
    let ended = process::run(command, input.as_bytes(), bytes, limit).await;
    let ended = ended.map_err(|err| ToolError::new(format!("{recipe} did not start: {err}")))?;
    if ended.succeeded()
        && let Ok(value) = serde_json::from_str(&ended.stdout)
    {
        return Ok(Returned { value, extent: ended.extent() });
    }
    ended.returned()
}

/// The path of the recipe that a call names, if there is such a one.
pub(super) fn named(skills: &[Bundle], fields: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let skill = skills.iter().find(|skill| text("skill").is_some_and(|it| skill.is_called(it)))?;
    skill.recipe(text("recipe")?).map(str::to_owned)
}

fn variables(args: &Map<String, Value>) -> Vec<(String, String)> {
    let mut left = VARIABLES_BYTES;
    let mut variables = Vec::new();
    for (name, value) in args {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                value.to_string()
            }
        };
        // No variable can hold a NUL.
        if text.contains('\0') || text.len() + name.len() > VARIABLE_BYTES.min(left) {
            continue;
        }
        left -= text.len() + name.len();
        variables.push((variable(name), text));
    }
    variables
}

/// `nodeType` and `node-type` are both `ARG_NODE_TYPE`.
fn variable(name: &str) -> String {
    let mut variable = "ARG_".to_owned();
    let mut before = '_';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            variable.push('_');
        }
        let plain = letter.is_ascii_alphanumeric();
        variable.push(if plain { letter.to_ascii_uppercase() } else { '_' });
        before = letter;
    }
    variable
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{variable, variables};

    #[test]
    fn arguments_become_variables() {
        let check = |name: &str, expected: &str| assert_eq!(variable(name), expected, "{name}");
        check("nodeType", "ARG_NODE_TYPE");
        check("node-type", "ARG_NODE_TYPE");
        check("node_type2", "ARG_NODE_TYPE2");
        check("URL", "ARG_URL");
        check("x=y", "ARG_X_Y");
        check("ä", "ARG__");
    }

    #[test]
    fn what_no_variable_can_hold_is_on_standard_input_alone() {
        let long = "x".repeat(20 << 10);
        let args = json!({"a": "b", "n": 1, "nul": "a\0", "long": long, "none": null, "list": [1]});
        let mut variables = variables(args.as_object().unwrap());
        variables.sort();
        let expected = [("ARG_A", "b"), ("ARG_LIST", "[1]"), ("ARG_N", "1"), ("ARG_NONE", "")];
        let expected: Vec<(String, String)> =
            expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(variables, expected);
    }
}
