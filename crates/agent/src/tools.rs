//! What the model can do: the built-in tools, recipes of skills, programs, MCP
//! servers, and the tools of the caller, which the host executes and books (see
//! `bridge`).
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
use wire::{agent::HostTool, run::Outcome};

use crate::{
    bridge,
    code_mode::{self, Interpreter, Language},
    emit::Emitter,
    mcp::Servers,
    model::{Arguments, ToolCall, ToolSpec},
    policy::{Action, Gate, Ruled},
    session::Session,
    skills::Bundle,
};

pub(crate) use bounds::fit;
use fields::Fields;

/// All tools of one run.
pub(crate) struct Toolbox<'a> {
    session: &'a Session,
    skills: &'a [Bundle],
    servers: &'a Servers,
    out: &'a Emitter,
    gate: Gate<'a>,
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
    Execute(Language),
}

impl<'a> Toolbox<'a> {
    pub(crate) fn new(
        session: &'a Session,
        skills: &'a [Bundle],
        servers: &'a Servers,
        out: &'a Emitter,
    ) -> Toolbox<'a> {
        Toolbox { session, skills, servers, out, gate: Gate::new(session, out) }
    }

    /// The tools as the model sees them.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let offered = Builtin::ALL.into_iter().filter(|tool| self.offers(*tool));
        let builtin = offered.map(|tool| schema::spec(tool, self.session));
        let own = builtin.chain(self.servers.specs());
        // A tool of the caller's hides one of ours that has its name.
        let own = own.filter(|spec| !bridge::offers(self.session, &spec.name));
        own.chain(bridge::specs(self.session)).collect()
    }

    /// A call's name and arguments as the step shows them: a recipe is a step
    /// of its own name.
    pub(crate) fn shown(&self, call: &ToolCall) -> (String, Value) {
        let args = call.arguments.shown();
        if self.builtin_named(&call.name) == Some(Builtin::RunRecipe)
            && let Arguments::Object(fields) = &call.arguments
            && let Some(recipe) = recipe::named(self.skills, fields)
        {
            let args = fields.get("args").cloned().unwrap_or_else(|| json!({}));
            return (recipe, args);
        }
        (call.name.clone(), args)
    }

    /// Has the host execute the call, if it is one of a tool of the caller's
    /// and may be made. Nothing is told of it here: the host books it.
    pub(crate) async fn call_by_host(&self, call: &ToolCall) -> Option<Outcome> {
        let Arguments::Object(fields) = &call.arguments else { return None };
        if !bridge::offers(self.session, &call.name) || self.permit(&call.name, fields).is_err() {
            return None;
        }
        Some(bridge::call(self.session, self.out, &call.name, fields).await)
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
        self.permit(&call.name, fields)?;
        let limit = self.timeout();
        let work = async {
            match self.builtin_named(&call.name) {
                Some(tool) => self.builtin(tool, fields).await,
                None => self.servers.call(&call.name, fields).await,
            }
        };
        // Whatever runs processes ends them itself, a little earlier.
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
            Builtin::Execute(language) => {
                let code = fields.text(language.field())?;
                fields.end()?;
                let Toolbox { session, out, gate, .. } = self;
                let interpreter = Interpreter { session, out, gate };
                interpreter.run(language, code, self.timeout()).await
            }
        }
    }

    /// Asks the policy. Arguments that are missing are the tool's own to refuse.
    fn permit(&self, name: &str, fields: &Map<String, Value>) -> Result<(), ToolError> {
        let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
        let recipe = recipe::named(self.skills, fields);
        let action = match self.builtin_named(name) {
            Some(Builtin::Shell) => Action::Command(text("command")),
            Some(Builtin::WriteFile | Builtin::EditFile) => Action::FileWrite(text("path")),
            Some(Builtin::ReadFile | Builtin::ListFiles | Builtin::SearchFiles) => {
                Action::Look(name)
            }
            Some(Builtin::RunRecipe) => Action::Tool(recipe.as_deref().unwrap_or(name)),
            Some(Builtin::Execute(_)) | None => Action::Tool(name),
        };
        if matches!(action, Action::Command("") | Action::FileWrite("")) {
            return Ok(());
        }
        match self.gate.rule(&action) {
            Ruled::Allow => Ok(()),
            Ruled::Deny(reason) => Err(ToolError::new(reason)),
        }
    }

    fn builtin_named(&self, name: &str) -> Option<Builtin> {
        let tool = Builtin::by_name(name).filter(|_| !bridge::offers(self.session, name));
        // A tool that is not offered says why by itself, but for these.
        tool.filter(|tool| !matches!(tool, Builtin::Execute(_)) || self.offers(*tool))
    }

    fn offers(&self, tool: Builtin) -> bool {
        match tool {
            Builtin::RunRecipe => self.skills.iter().any(|skill| !skill.recipes.is_empty()),
            Builtin::Execute(_) => code_mode::is_on(self.session),
            Builtin::Shell
            | Builtin::ReadFile
            | Builtin::WriteFile
            | Builtin::EditFile
            | Builtin::ListFiles
            | Builtin::SearchFiles => true,
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.session.limits.tool_timeout_ms)
    }
}

impl Builtin {
    const ALL: [Builtin; 9] = [
        Builtin::Shell,
        Builtin::ReadFile,
        Builtin::WriteFile,
        Builtin::EditFile,
        Builtin::ListFiles,
        Builtin::SearchFiles,
        Builtin::RunRecipe,
        Builtin::Execute(Language::TypeScript),
        Builtin::Execute(Language::Python),
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
            Builtin::Execute(language) => language.tool(),
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
        Outcome::Deferred => HostTool::DEFERRED.to_owned(),
        Outcome::Failed { error, result: None } => format!("error: {error}"),
        Outcome::Failed { error, result: Some(result) } => {
            json!({"error": error, "result": result}).to_string()
        }
    }
}

#[cfg(test)]
mod tests;
