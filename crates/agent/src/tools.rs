//! What the model can do: the built-in tools, recipes of skills, MCP servers.
//!
//! A tool never ends a run. Whatever goes wrong in it is its result, and the
//! model may try something else. Results are bounded here, in one place; tools
//! that could produce more than memory holds bound themselves as well.

mod bounds;
mod capture;
mod edit;
mod fields;
mod files;
mod process;
mod recipe;
mod schema;
mod search;
mod shell;

use std::time::Duration;

use serde_json::{Map, Value, json};
use wire::run::Outcome;

use crate::{
    mcp::Servers,
    model::{Arguments, ToolCall, ToolSpec},
    session::Session,
    skills::Bundle,
};

use fields::Fields;

/// What the model reads of a call that the caller executes after this run.
const DEFERRED: &str = "The caller executes this tool after this turn and brings the result \
                        with the next message. Do not call it again; end your turn now.";

/// All tools of one run.
pub(crate) struct Toolbox<'a> {
    session: &'a Session,
    skills: &'a [Bundle],
    servers: &'a Servers,
}

/// What a tool returned.
pub(crate) struct Returned {
    pub(crate) value: Value,
    pub(crate) extent: Extent,
}

/// Whether a value is all that there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Cut,
}

/// A tool that did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ToolError {
    pub(crate) message: String,
    /// What it returned all the same.
    pub(crate) result: Option<Value>,
}

/// The built-in tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Builtin {
    Shell,
    ReadFile,
    WriteFile,
    EditFile,
    ListFiles,
    SearchFiles,
    RunRecipe,
}

impl<'a> Toolbox<'a> {
    pub(crate) fn new(
        session: &'a Session,
        skills: &'a [Bundle],
        servers: &'a Servers,
    ) -> Toolbox<'a> {
        Toolbox { session, skills, servers }
    }

    /// The tools as the model sees them.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let recipes = self.skills.iter().any(|skill| !skill.recipes.is_empty());
        let offered = |tool: &Builtin| *tool != Builtin::RunRecipe || recipes;
        let builtin = Builtin::ALL.into_iter().filter(offered).map(schema::spec);
        builtin.chain(self.servers.specs()).collect()
    }

    /// A call's name and arguments as the step shows them: a recipe is a step
    /// of its own name.
    pub(crate) fn shown(&self, call: &ToolCall) -> (String, Value) {
        let args = call.arguments.shown();
        if Builtin::by_name(&call.name) == Some(Builtin::RunRecipe)
            && let Arguments::Object(fields) = &call.arguments
            && let Some(recipe) = recipe::named(self.skills, fields)
        {
            let args = fields.get("args").cloned().unwrap_or_else(|| json!({}));
            return (recipe, args);
        }
        (call.name.clone(), args)
    }

    /// Runs one call to its end.
    pub(crate) async fn call(&self, call: &ToolCall) -> Outcome {
        let limit = usize::try_from(self.session.limits.tool_result_bytes).unwrap_or(usize::MAX);
        match self.dispatch(call).await {
            Ok(Returned { value, extent }) => {
                let (result, fitted) = bounds::fit(value, limit);
                let truncated = extent == Extent::Cut || fitted == Extent::Cut;
                Outcome::Succeeded { result, truncated }
            }
            Err(ToolError { message, result }) => {
                let result = result.map(|value| bounds::fit(value, limit).0);
                Outcome::Failed { error: bounds::shorten(&message), result }
            }
        }
    }

    async fn dispatch(&self, call: &ToolCall) -> Result<Returned, ToolError> {
        let fields = match &call.arguments {
            Arguments::Object(fields) => fields,
            Arguments::Malformed { reason, .. } => {
                return Err(ToolError::new(format!("the arguments are no JSON object: {reason}")));
            }
        };
        let limit = self.timeout();
        let work = async {
            match Builtin::by_name(&call.name) {
                Some(tool) => self.builtin(tool, fields).await,
                None => self.servers.call(&call.name, fields).await,
            }
        };
        // The shell and recipes end their processes themselves, a little earlier.
        match tokio::time::timeout(limit + Duration::from_secs(5), work).await {
            Ok(returned) => returned,
            Err(_) => Err(ToolError::timed_out(limit)),
        }
    }

    async fn builtin(
        &self,
        tool: Builtin,
        fields: &Map<String, Value>,
    ) -> Result<Returned, ToolError> {
        let mut fields = Fields::of(tool.name(), fields);
        match tool {
            Builtin::Shell => shell::run(self.session, &mut fields).await,
            Builtin::ReadFile => files::read(self.session, &mut fields).await,
            Builtin::WriteFile => files::write(self.session, &mut fields).await,
            Builtin::EditFile => edit::edit(self.session, &mut fields).await,
            Builtin::ListFiles => files::list(self.session, &mut fields).await,
            Builtin::SearchFiles => search::search(self.session, &mut fields).await,
            Builtin::RunRecipe => recipe::run(self.session, self.skills, &mut fields).await,
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.session.limits.tool_timeout_ms)
    }
}

impl Builtin {
    const ALL: [Builtin; 7] = [
        Builtin::Shell,
        Builtin::ReadFile,
        Builtin::WriteFile,
        Builtin::EditFile,
        Builtin::ListFiles,
        Builtin::SearchFiles,
        Builtin::RunRecipe,
    ];

    fn name(self) -> &'static str {
        match self {
            Builtin::Shell => "shell",
            Builtin::ReadFile => "read_file",
            Builtin::WriteFile => "write_file",
            Builtin::EditFile => "edit_file",
            Builtin::ListFiles => "list_files",
            Builtin::SearchFiles => "search_files",
            Builtin::RunRecipe => "run_recipe",
        }
    }

    fn by_name(name: &str) -> Option<Builtin> {
        Builtin::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

impl Returned {
    pub(crate) fn whole(value: Value) -> Returned {
        Returned { value, extent: Extent::Whole }
    }
}

impl ToolError {
    pub(crate) fn new(message: impl Into<String>) -> ToolError {
        ToolError { message: message.into(), result: None }
    }

    pub(crate) fn timed_out(limit: Duration) -> ToolError {
        ToolError::new(format!("timed out after {} ms", limit.as_millis()))
    }
}

/// What the model reads of a call: a text as it is, anything else as JSON.
pub(crate) fn told(outcome: &Outcome) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    match outcome {
        Outcome::Succeeded { result, .. } => text(result),
        Outcome::Deferred => DEFERRED.to_owned(),
        Outcome::Failed { error, result: None } => format!("error: {error}"),
        Outcome::Failed { error, result: Some(result) } => {
            json!({"error": error, "result": result}).to_string()
        }
    }
}

#[cfg(test)]
mod tests;
