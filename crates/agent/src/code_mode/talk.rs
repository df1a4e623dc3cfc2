//! The talk with a program: it prints, calls tools and returns, in whatever order
//! and as often as it likes, and is answered as long as it keeps to the bounds.
//!
//! Its messages are always read, even while it does not read ours: a program that
//! sends and one that waits would otherwise wait for each other.

use std::collections::VecDeque;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use wire::run::Outcome;

use super::functions::Function;
use super::lines::Line;
use super::program::{MEMORY_BYTES, MESSAGE_BYTES, Program, Said};
use super::report::{Level, Report};
use super::{Fault, Interpreter, Language, Phase};
use crate::bridge;
use crate::policy::{Action, Ruled};

/// Most calls of one program.
const CALLS: usize = 1000;
/// Calls that are executed at the same time; the next ones wait.
const SIDE_BY_SIDE: usize = 16;
/// Most bytes of the calls that wait.
const WAITING_BYTES: usize = 32 << 20;
/// How deep arguments and results may nest. Those who read them after us take
/// 128 levels, and a few of these are around them.
const DEPTH: usize = 100;
/// The exit status of a shell that did not find the program.
const NOT_FOUND: i32 = 127;

/// What a program returned, or in which phase it failed.
pub(super) type Ended = Result<Option<Value>, (Phase, Fault)>;

/// A message of a program.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Message {
    Ready,
    Console {
        level: String,
        message: String,
    },
    Call {
        id: u64,
        function: String,
        #[serde(default)]
        args: Value,
    },
    Done {
        #[serde(default, deserialize_with = "even_null")]
        result: Option<Value>,
    },
    Failed {
        name: String,
        message: String,
        #[serde(default)]
        line: Option<u64>,
        #[serde(default)]
        phase: Option<Phase>,
    },
}

/// What kind of message a program meant, whatever else is in it.
#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    name: String,
}

/// A call that waits to be executed.
#[derive(Debug)]
struct Call {
    id: u64,
    function: String,
    args: Value,
    bytes: usize,
}

/// One program and all that is under way for it.
pub(super) struct Talk<'a> {
    pub(super) interpreter: &'a Interpreter<'a>,
    pub(super) functions: &'a [Function<'a>],
    pub(super) report: &'a Report<'a>,
    pub(super) language: Language,
}

impl Talk<'_> {
    /// Runs a program to its end.
    pub(super) async fn run(&self, code: &str) -> Ended {
        let started = Program::start(self.interpreter.session, self.language);
        let (mut program, stdin) = started.map_err(|err| {
            let message = format!("cannot start `{}`: {err}", self.language.program());
            (Phase::CreateContext, Fault::new("Error", message))
        })?;
        match self.hear(&mut program, stdin, code).await {
            Ok(ended) => {
                program.end(|line| self.print(line)).await;
                ended
            }
            Err(broken) => {
                program.kill().await;
                Err(broken)
            }
        }
    }

    /// Hears a program until it says how it ended, or until it cannot any more.
    async fn hear(
        &self,
        program: &mut Program,
        stdin: ChildStdin,
        code: &str,
    ) -> Result<Ended, (Phase, Fault)> {
        let (answers, outbox) = mpsc::channel(SIDE_BY_SIDE);
        // There is room for one.
        let _ = answers.try_send(self.given(code));
        let mut writing = Box::pin(write(stdin, outbox));
        let mut written = false;
        let mut waiting = Waiting::default();
        let mut calls = FuturesUnordered::new();
        let mut is_ready = false;
        loop {
            while calls.len() < SIDE_BY_SIDE
                && let Some(call) = waiting.take()
            {
                calls.push(self.answer(call, answers.clone()));
            }
            let said = tokio::select! {
                said = program.next() => said,
                Some(()) = calls.next() => continue,
                () = &mut writing, if !written => {
                    // It has closed its end. What it says is still heard.
                    written = true;
                    continue;
                }
            };
            match said {
                Said::Printed(line) => self.print(line),
                Said::Exited(status) => {
                    let missing = !is_ready && status.code() == Some(NOT_FOUND);
                    return Err(if missing { self.missing() } else { left(&status.to_string()) });
                }
                Said::Message(Line::TooLong) => {
                    let message = format!("a message has more than {MESSAGE_BYTES} bytes");
                    return Err(failed("RangeError", message));
                }
                Said::Message(Line::Text(line)) => match serde_json::from_str(&line) {
                    Ok(Message::Ready) => is_ready = true,
                    Ok(Message::Console { level, message }) => {
                        self.report.console(Level::parse(&level), &message);
                    }
                    Ok(Message::Call { id, function, args }) => {
                        waiting.add(Call { id, function, args, bytes: line.len() })?;
                    }
                    Ok(Message::Done { result: Some(result) }) if nests(&result, DEPTH) => {
                        return Err(untaken("the result", &too_deep()));
                    }
                    Ok(Message::Done { result }) => return Ok(Ok(result)),
                    Ok(Message::Failed { name, message, line, phase }) => {
                        let fault = Fault { line, ..Fault::new(&name, message) };
                        return Ok(Err((phase.unwrap_or(Phase::Execute), fault)));
                    }
                    Err(err) => return Err(no_message(&line, &err)),
                },
            }
        }
    }

    fn print(&self, line: Line) {
        match line {
            Line::Text(line) => self.report.console(Level::Log, &line),
            Line::TooLong => self.report.console(Level::Log, "[a line that is too long]"),
        }
    }

    /// What the interpreter is told first.
    fn given(&self, code: &str) -> String {
        let names: Vec<&str> = self.functions.iter().map(|one| one.identifier.as_str()).collect();
        // Half of a message is left for whatever else is in it.
        let limit = MESSAGE_BYTES / 2;
        json!({"code": code, "functions": names, "limit": limit, "memory": MEMORY_BYTES})
            .to_string()
    }

    fn missing(&self) -> (Phase, Fault) {
        let program = self.language.program();
        let message = format!("`{program}` is not in this template, so it cannot run this program");
        (Phase::CreateContext, Fault::new("Error", message))
    }

    /// Executes a call and answers it.
    async fn answer(&self, call: Call, answers: mpsc::Sender<String>) {
        self.report.call(&call.function, &call.args);
        let began = Instant::now();
        let answer = self.execute(&call).await;
        self.report.called(&call.function, &answer, began.elapsed());
        let message = match answer {
            Ok(result) => json!({"id": call.id, "result": result}),
            Err(error) => json!({"id": call.id, "error": error}),
        };
        // Nobody takes it once the program does not listen any more.
        let _ = answers.send(message.to_string()).await;
    }

    async fn execute(&self, call: &Call) -> Result<Value, String> {
        let named = |one: &&Function<'_>| one.identifier == call.function;
        let Some(function) = self.functions.iter().find(named) else {
            return Err(format!("there is no function `{}`", call.function.escape_debug()));
        };
        let arguments = match &call.args {
            Value::Object(arguments) => arguments.clone(),
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(format!("{} takes one object", call.function));
            }
        };
        if nests(&call.args, DEPTH) {
            return Err(format!("the arguments cannot be taken: {}", too_deep()));
        }
        let Interpreter { session, out, gate } = self.interpreter;
        let name = function.tool.name.as_str();
        if let Ruled::Deny(reason) = gate.rule(&Action::Tool(name)) {
            return Err(reason);
        }
        match bridge::call(session, out, name, &arguments).await {
            Outcome::Succeeded { result, .. } => Ok(result),
            Outcome::Failed { error, .. } => Err(error),
            Outcome::Deferred => Err(format!(
                "the caller executes `{name}` after this turn and brings the result with the \
                 next message: no program can wait for it"
            )),
        }
    }
}

/// Calls that are not executed yet.
#[derive(Default)]
struct Waiting {
    calls: VecDeque<Call>,
    bytes: usize,
    count: usize,
}

impl Waiting {
    fn add(&mut self, call: Call) -> Result<(), (Phase, Fault)> {
        self.count += 1;
        self.bytes += call.bytes;
        if self.count > CALLS {
            return Err(failed("RangeError", format!("it made more than {CALLS} calls")));
        }
        if self.bytes > WAITING_BYTES {
            let message = format!("its calls have more than {WAITING_BYTES} bytes of arguments");
            return Err(failed("RangeError", message));
        }
        self.calls.push_back(call);
        Ok(())
    }

    fn take(&mut self) -> Option<Call> {
        let call = self.calls.pop_front()?;
        self.bytes -= call.bytes;
        Some(call)
    }
}

/// A `null` that was returned is a result.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Why a line is no message, in words about the program: that is what a model can
/// change.
fn no_message(line: &str, err: &serde_json::Error) -> (Phase, Fault) {
    let reason = err.to_string();
    // A place in the message is none in the program.
    let place = format!(" at line {} column {}", err.line(), err.column());
    let reason = reason.strip_suffix(&place).unwrap_or(&reason);
    let kind = serde_json::from_str(line).map(|Kind { name }| name).unwrap_or_default();
    let what = match kind.as_str() {
        "console" => "a message of the console",
        "call" => "the arguments of a call",
        "done" => "the result",
        "failed" => "the error",
        _ => {
            let message = format!(
                "it sent what is no message ({reason}): a program does not write to descriptor 4"
            );
            return failed("Error", message);
        }
    };
    match reason {
        "recursion limit exceeded" => untaken(what, &too_deep()),
        "number out of range" => untaken(what, "a number is out of range: make it a string"),
        _ => untaken(what, reason),
    }
}

fn untaken(what: &str, reason: &str) -> (Phase, Fault) {
    failed("TypeError", format!("{what} cannot be taken: {reason}"))
}

fn too_deep() -> String {
    format!("nested more than {DEPTH} deep; make it flatter, or a string")
}

/// Whether a value is nested deeper than that.
fn nests(value: &Value, depth: usize) -> bool {
    let Some(within) = depth.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| nests(item, within)),
        Value::Object(fields) => fields.values().any(|field| nests(field, within)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

async fn write(mut stdin: ChildStdin, mut outbox: mpsc::Receiver<String>) {
    while let Some(mut line) = outbox.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn failed(name: &str, message: impl Into<String>) -> (Phase, Fault) {
    (Phase::Execute, Fault::new(name, message))
}

fn left(status: &str) -> (Phase, Fault) {
    failed("Error", format!("the program ended before it returned ({status})"))
}
