//! Code mode: the model writes a program that calls the caller's tools, instead
//! of calling them one by one.
//!
//! ```text
//! code ──► transpile ──► node or python3 ──► printed ──► events, at once
//!                            │    ▲
//!              external_x() ─┘    └─ result ◄── bridge ◄── the host, which books the call
//! ```
//!
//! A program runs beside us in the working directory, as any command would, and
//! may do what any command may. Whatever it sends is hostile: see `talk`. All that
//! it started ends with it.

mod functions;
mod lines;
mod program;
mod report;
mod signature;
mod talk;
mod typescript;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use wire::agent::CodeMode;

use crate::emit::Emitter;
use crate::model::ToolSpec;
use crate::policy::Gate;
use crate::session::Session;
use crate::tools::{self, Extent, Returned, ToolError};

use report::Report;
use talk::Talk;
use typescript::Script;

/// Longest program.
const CODE_BYTES: usize = 64 << 10;
/// Longest words about a failure.
const FAULT_BYTES: usize = 4 << 10;

/// The languages that programs are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    TypeScript,
    Python,
}

/// Where a program fails, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Phase {
    ValidateInput,
    Transpile,
    CreateContext,
    Execute,
}

/// What was wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    name: String,
    message: String,
    /// The line of the program, from 1.
    line: Option<u64>,
}

/// Runs programs.
#[derive(Clone, Copy)]
pub(crate) struct Interpreter<'a> {
    pub(crate) session: &'a Session,
    pub(crate) out: &'a Emitter,
    /// What the policy says to a call.
    pub(crate) gate: &'a Gate<'a>,
}

/// Whether programs may be run.
pub(crate) fn is_on(session: &Session) -> bool {
    match session.code_mode {
        CodeMode::On => true,
        CodeMode::Off => false,
    }
}

/// A tool as models see it.
pub(crate) fn spec(session: &Session, language: Language) -> ToolSpec {
    let functions = functions::listed(&functions::of(&session.tools), language);
    let (about, code) = match language {
        Language::TypeScript => (
            "Runs a TypeScript program with Node in the working directory. The program is the \
             body of an asynchronous function: await what is asynchronous, and return a value \
             that is JSON. What it prints with console is in the logs of the result. Use it to \
             call several functions, side by side or in loops, and to work on what they return.",
            "The program.",
        ),
        Language::Python => (
            "Runs a Python program in the working directory. The program is the body of a \
             function: return a value that is JSON. What it prints is in the logs of the result. \
             External functions take one dict, wait, return the result, and raise ExternalError. \
             Use it to call several functions in loops, and to work on what they return.",
            "The program.",
        ),
    };
    let schema = json!({
        "type": "object",
        "properties": {language.field(): {"type": "string", "description": code}},
        "required": [language.field()],
        "additionalProperties": false,
    });
    let description = format!("{about} {functions}");
    ToolSpec { name: language.tool().to_owned(), description, schema }
}

impl Interpreter<'_> {
    /// Runs a program; what it returned and printed, or what was wrong with it.
    pub(crate) async fn run(
        &self,
        language: Language,
        code: &str,
        limit: Duration,
    ) -> Result<Returned, ToolError> {
        let report = Report::begin(self.out, code);
        let ended = match timeout(limit, self.execute(language, code, &report)).await {
            Ok(ended) => ended,
            Err(_) => {
                let message = format!("timed out after {} ms", limit.as_millis());
                Err((Phase::Execute, Fault::new("TimeoutError", message)))
            }
        };
        let mut shown = Map::new();
        shown.insert("success".to_owned(), json!(ended.is_ok()));
        let mut extent = Extent::Whole;
        let (phase, fault) = match ended {
            Ok(None) => (Phase::Execute, None),
            Ok(Some(value)) => {
                // The logs need room beside it.
                let room = usize::try_from(self.session.limits.tool_result_bytes / 2);
                let (value, cut) = tools::fit(value, room.unwrap_or(usize::MAX));
                extent = cut;
                shown.insert("result".to_owned(), value);
                (Phase::Execute, None)
            }
            Err((phase, fault)) => (phase, Some(fault)),
        };
        let logs = report.end(phase, fault.as_ref());
        if !logs.is_empty() {
            shown.insert("logs".to_owned(), json!(logs));
        }
        match fault {
            None => Ok(Returned { value: Value::Object(shown), extent }),
            Some(fault) => {
                shown.insert("error".to_owned(), fault.shown());
                let message = format!("{}: {}", fault.name, fault.message);
                Err(ToolError { message, result: Some(Value::Object(shown)) })
            }
        }
    }

    async fn execute(&self, language: Language, code: &str, report: &Report<'_>) -> talk::Ended {
        let refused =
            |message: String| Err((Phase::ValidateInput, Fault::new("ValidationError", message)));
        if code.trim().is_empty() {
            return refused(format!("`{}` is empty", language.field()));
        }
        if code.len() > CODE_BYTES {
            let field = language.field();
            return refused(format!("`{field}` has more than {CODE_BYTES} bytes"));
        }
        let functions = functions::of(&self.session.tools);
        let talk = Talk { interpreter: self, functions: &functions, report, language };
        match language {
            Language::Python => talk.run(code).await,
            Language::TypeScript => {
                let script = typescript::transpile(code).await;
                let script = script.map_err(|fault| (Phase::Transpile, fault))?;
                let ended = talk.run(&script.code).await;
                ended.map_err(|(phase, fault)| (phase, fault.in_source(&script)))
            }
        }
    }
}

impl Language {
    pub(crate) const ALL: [Language; 2] = [Language::TypeScript, Language::Python];

    /// The tool that runs it.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Language::TypeScript => "execute_typescript",
            Language::Python => "execute_python",
        }
    }

    /// The tool's argument.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Language::TypeScript => "typescriptCode",
            Language::Python => "pythonCode",
        }
    }

    /// The program that runs it.
    fn program(self) -> &'static str {
        match self {
            Language::TypeScript => "node",
            Language::Python => "python3",
        }
    }

    fn command(self) -> Vec<String> {
        let memory = program::MEMORY_BYTES >> 20;
        match self {
            Language::TypeScript => vec![
                self.program().to_owned(),
                format!("--max-old-space-size={memory}"),
                "-e".to_owned(),
                include_str!("code_mode/prelude.js").to_owned(),
            ],
            Language::Python => vec![
                self.program().to_owned(),
                "-c".to_owned(),
                include_str!("code_mode/prelude.py").to_owned(),
            ],
        }
    }
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::ValidateInput => "validate-input",
            Phase::Transpile => "transpile",
            Phase::CreateContext => "create-context",
            Phase::Execute => "execute",
        }
    }
}

impl Fault {
    fn new(name: &str, message: impl Into<String>) -> Fault {
        let message = report::shorten(&message.into(), FAULT_BYTES);
        Fault { name: report::shorten(name, 64), message, line: None }
    }

    /// The fault with the line that the model wrote.
    fn in_source(self, script: &Script) -> Fault {
        let line = self.line.and_then(|line| script.source_line(line));
        Fault { line, ..self }
    }

    fn shown(&self) -> Value {
        let mut shown = Map::new();
        shown.insert("name".to_owned(), json!(self.name));
        shown.insert("message".to_owned(), json!(self.message));
        if let Some(line) = self.line {
            shown.insert("line".to_owned(), json!(line));
        }
        Value::Object(shown)
    }
}

#[cfg(test)]
mod tests;
