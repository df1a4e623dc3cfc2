//! What blocks do: each kind reads its inputs once, when the workflow is
//! checked, and is carried out with the values of those before it.

mod agents;
mod files;
mod respond;
mod save_file;
mod start;

use std::collections::BTreeMap;

use http::Uri;
use serde_json::{Map, Value};
use store::{ExecutionRow, StoreError};

use super::{
    check::Violation,
    graph::BlockKind,
    journal::Journal,
    live::Stop,
    values::{FillError, Pattern, Reference, Template, Values},
};
use crate::{problem::Problem, state::Workspace};

pub(crate) use agents::session_of;
pub(crate) use respond::DATA;

/// What a block does.
#[derive(Debug)]
pub(crate) enum Action {
    /// Hands the execution's input on.
    Start,
    /// Dispatches an agent.
    Agents(agents::Agents),
    /// Keeps files.
    SaveFile(save_file::SaveFile),
    /// Answers.
    Respond(respond::Respond),
}

/// What a block has at hand while it is carried out.
pub(crate) struct Scene<'a> {
    /// Where everything is.
    pub(crate) workspace: &'a Workspace,
    /// The execution it belongs to.
    pub(crate) execution: &'a ExecutionRow,
    /// The environment of the workflow.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// The outputs of blocks before it.
    pub(crate) values: &'a Values,
    /// Its own id.
    pub(crate) block: &'a str,
    /// Where its lines go.
    pub(crate) journal: &'a mut Journal,
    /// Says when to give up.
    pub(crate) stop: &'a Stop,
}

/// Why a block did not come to its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It cannot do what it should.
    Failed(Failure),
    /// It was told to stop.
    Stopped,
}

/// A failure, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `no_sandbox_url`, `sandbox_lost`, or what a runner says.
    pub(crate) code: String,
    /// What happened.
    pub(crate) message: String,
}

/// The outputs of a block, by name.
pub(crate) type Outputs = Map<String, Value>;

impl Action {
    /// Reads the inputs of a block of that kind.
    pub(super) fn read(kind: BlockKind, inputs: &mut Inputs<'_>) -> Result<Action, Violation> {
        Ok(match kind {
            BlockKind::Start => Action::Start,
            BlockKind::Agents => Action::Agents(agents::Agents::read(inputs)?),
            BlockKind::SaveFile => Action::SaveFile(save_file::SaveFile::read(inputs)?),
            BlockKind::Respond => Action::Respond(respond::Respond::read(inputs)?),
        })
    }

    /// Carries it out.
    pub(super) async fn carry_out(&self, scene: Scene<'_>) -> Result<Outputs, Broken> {
        match self {
            Action::Start => Ok(start::outputs(&scene.execution.input)),
            Action::Agents(agents) => agents.carry_out(scene).await,
            Action::SaveFile(save_file) => save_file.carry_out(scene).await,
            Action::Respond(respond) => respond.carry_out(scene),
        }
    }
}

impl Failure {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Failure {
        Failure { code: code.to_owned(), message: message.into() }
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Broken {
        Broken::Failed(failure)
    }
}

impl From<Problem> for Broken {
    fn from(problem: Problem) -> Broken {
        Failure::new(problem.code(), problem.message()).into()
    }
}

impl From<StoreError> for Broken {
    fn from(err: StoreError) -> Broken {
        tracing::error!("a block failed by the store: {err}");
        Problem::from(err).into()
    }
}

/// The input `name` could not be filled in.
fn unfilled(name: &'static str) -> impl FnOnce(FillError) -> Broken {
    move |err| Failure::new("bad_input", format!("inputs.{name}: {err}")).into()
}

/// Whether this can be the address of a runner; if not, why.
pub(super) fn check_sandbox_url(text: &str) -> Result<(), String> {
    let good = text.parse().is_ok_and(|uri: Uri| {
        let known = matches!(uri.scheme_str(), Some("http" | "https"));
        let plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        known && plain && uri.query().is_none() && !text.contains('#')
    });
    if good { Ok(()) } else { Err("is not an http or https address without a query".to_owned()) }
}

/// The inputs of one block, while they are read. Keeps count of what was asked
/// for, so that a misspelt input is not passed over.
pub(super) struct Inputs<'a> {
    at: &'a str,
    map: &'a Map<String, Value>,
    asked: Vec<&'static str>,
    references: Vec<(String, Reference)>,
}

impl<'a> Inputs<'a> {
    /// The inputs at `at` in the graph.
    pub(super) fn new(at: &'a str, map: &'a Map<String, Value>) -> Inputs<'a> {
        Inputs { at, map, asked: Vec::new(), references: Vec::new() }
    }

    /// Something is wrong with the input `name`.
    fn wrong(&self, name: &str, message: impl Into<String>) -> Violation {
        Violation::new(format!("{}.{name}", self.at), message)
    }

    fn missing(&self, name: &str) -> Violation {
        self.wrong(name, "is missing")
    }

    /// Null is as good as nothing.
    fn take(&mut self, name: &'static str) -> Option<&'a Value> {
        self.asked.push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// An input that is text with references.
    fn text(&mut self, name: &'static str) -> Result<Option<Template>, Violation> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.wrong(name, "must be a string"))?;
        if text.trim().is_empty() {
            return Err(self.wrong(name, "must not be empty"));
        }
        let template = Template::parse(text).map_err(|err| self.wrong(name, err.to_string()))?;
        let field = format!("{}.{name}", self.at);
        self.references.extend(template.references().map(|one| (field.clone(), one.clone())));
        Ok(Some(template))
    }

    fn required_text(&mut self, name: &'static str) -> Result<Template, Violation> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    /// An input that may be anything, `null` too.
    fn pattern(&mut self, name: &'static str) -> Result<Option<Pattern>, Violation> {
        self.asked.push(name);
        let Some(value) = self.map.get(name) else { return Ok(None) };
        let field = format!("{}.{name}", self.at);
        let pattern = Pattern::parse(value)
            .map_err(|err| Violation::new(field.clone() + &err.path, err.cause.to_string()))?;
        let references = pattern.references().into_iter();
        self.references.extend(references.map(|(path, one)| (field.clone() + &path, one.clone())));
        Ok(Some(pattern))
    }

    /// Every reference with the field that holds it, unless there are inputs
    /// that a block of this kind does not know.
    pub(super) fn finish(self, kind: BlockKind) -> Result<Vec<(String, Reference)>, Violation> {
        if let Some(name) = self.map.keys().find(|name| !self.asked.contains(&name.as_str())) {
            let known = match self.asked.as_slice() {
                [] => "it has none".to_owned(),
                known => known.join(", "),
            };
            let message = format!("is not an input of a block of type `{}`: {known}", kind.name());
            return Err(self.wrong(name, message));
        }
        Ok(self.references)
    }
}
