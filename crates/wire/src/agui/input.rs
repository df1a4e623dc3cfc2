//! The request of a front end: `RunAgentInput`.
//!
//! It is read strictly in what it means and leniently in what it holds besides:
//! a field of the wrong type is named with its path, fields that we do not know
//! are passed over, and `null` counts as missing. So `HttpAgent` of any version
//! and TanStack's client are both understood. `state`, `resume` and the metadata
//! of messages are not read: a run has no use for them.

mod field;

use serde_json::{Map, Value};

use super::surrogates;
use field::Field;

/// Levels of a call's arguments that are read as JSON: they are passed on within
/// other values, and readers stop at 128.
const DEPTH: usize = 100;

/// What a front end asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct RunAgentInput {
    /// The conversation.
    pub thread_id: String,
    /// The front end's name for the run.
    pub run_id: String,
    /// The run before, if this one branches from it.
    pub parent_run_id: Option<String>,
    /// What was said, oldest first.
    pub messages: Vec<InputMessage>,
    /// Tools that the front end executes.
    pub tools: Vec<InputTool>,
    /// What else the model should know.
    pub context: Vec<InputContext>,
    /// Whatever the front end has for us in particular.
    pub forwarded_props: Map<String, Value>,
}

/// Something that was said. Thoughts and activities are for front ends alone and
/// are left out.
#[derive(Clone, Debug, PartialEq)]
pub enum InputMessage {
    /// By whoever made the front end: `system` and `developer`.
    System {
        /// What.
        text: String,
    },
    /// By the user.
    User {
        /// What.
        text: String,
    },
    /// By the assistant.
    Assistant {
        /// What; may be empty.
        text: String,
        /// The tools it called then.
        calls: Vec<InputCall>,
    },
    /// By a tool.
    Tool {
        /// The call that it answers.
        call_id: String,
        /// What it returned, as text.
        text: String,
        /// What went wrong, if something did.
        error: Option<String>,
    },
}

/// A tool call of the assistant's.
#[derive(Clone, Debug, PartialEq)]
pub struct InputCall {
    /// The call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments; text, if they are no JSON or too deep.
    pub args: Value,
}

/// A tool that the front end executes.
#[derive(Clone, Debug, PartialEq)]
pub struct InputTool {
    /// What the model calls it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of its arguments, if it has any.
    pub parameters: Option<Value>,
}

/// Something that the model should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputContext {
    /// What it is.
    pub description: String,
    /// What it says.
    pub value: String,
}

/// Why a body is no `RunAgentInput`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadInput {
    /// It is damaged.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// A field is not there.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A field holds something else.
    #[error("`{field}` is not {expected}")]
    Wrong {
        /// Where.
        field: String,
        /// What should be there.
        expected: &'static str,
    },
    /// Something is said that is no text.
    #[error("`{field}` is of type {kind:?}, and only text is understood")]
    NotText {
        /// Where.
        field: String,
        /// What is there.
        kind: String,
    },
}

impl RunAgentInput {
    /// Reads the body of a request. The caller has bounded its size.
    pub fn parse(body: &[u8]) -> Result<RunAgentInput, BadInput> {
        let body: Value = serde_json::from_slice(body)
            .or_else(|_| serde_json::from_slice(&surrogates::whole(body)))
            .map_err(|err| BadInput::NotJson(err.to_string()))?;
        let input = Field::root(&body);
        input.object()?;
        let messages = input.needed("messages")?;
        Ok(RunAgentInput {
            thread_id: input.needed("threadId")?.text()?,
            run_id: input.needed("runId")?.text()?,
            parent_run_id: input.optional("parentRunId").map(|id| id.text()).transpose()?,
            messages: messages.items()?.iter().filter_map(message).collect::<Result<_, _>>()?,
            tools: input.list("tools", tool)?,
            context: input.list("context", context)?,
            forwarded_props: match input.optional("forwardedProps") {
                Some(props) => props.object()?.clone(),
                None => Map::new(),
            },
        })
    }
}

fn message(message: &Field<'_>) -> Option<Result<InputMessage, BadInput>> {
    let role = match message.needed("role").and_then(|role| role.text()) {
        Ok(role) => role,
        Err(bad) => return Some(Err(bad)),
    };
    match role.as_str() {
        "system" | "developer" => {
            Some(needed_content(message).map(|text| InputMessage::System { text }))
        }
        "user" => Some(needed_content(message).map(|text| InputMessage::User { text })),
        "assistant" => Some(assistant(message)),
        "tool" => Some(tool_result(message)),
        // They have no part in what the model is told; later versions have more.
        _ => None,
    }
}

fn assistant(message: &Field<'_>) -> Result<InputMessage, BadInput> {
    let text = match message.optional("content") {
        Some(content) => content_text(&content)?,
        None => String::new(),
    };
    Ok(InputMessage::Assistant { text, calls: message.list("toolCalls", call)? })
}

fn call(call: &Field<'_>) -> Result<InputCall, BadInput> {
    let function = call.needed("function")?;
    let arguments = match function.optional("arguments") {
        Some(arguments) => arguments.text()?,
        None => String::new(),
    };
    let args = if arguments.trim().is_empty() {
        Value::Object(Map::new())
    } else {
        // A model may have written what is no JSON; it is told so as it was.
        let read = serde_json::from_str(&arguments).ok().filter(|args| is_within(args, DEPTH));
        read.unwrap_or(Value::String(arguments))
    };
    Ok(InputCall { id: call.needed("id")?.text()?, name: function.needed("name")?.text()?, args })
}

/// Whether no more values than these are within each other.
fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_within(item, depth - 1)),
        Value::Object(fields) => {
            depth > 0 && fields.values().all(|field| is_within(field, depth - 1))
        }
    }
}

fn tool_result(message: &Field<'_>) -> Result<InputMessage, BadInput> {
    Ok(InputMessage::Tool {
        call_id: message.needed("toolCallId")?.text()?,
        text: needed_content(message)?,
        error: message.optional("error").map(|error| error.text()).transpose()?,
    })
}

fn tool(tool: &Field<'_>) -> Result<InputTool, BadInput> {
    Ok(InputTool {
        name: tool.needed("name")?.text()?,
        description: match tool.optional("description") {
            Some(description) => description.text()?,
            None => String::new(),
        },
        parameters: match tool.optional("parameters") {
            Some(parameters) => Some(Value::Object(parameters.object()?.clone())),
            None => None,
        },
    })
}

fn context(context: &Field<'_>) -> Result<InputContext, BadInput> {
    Ok(InputContext {
        description: context.needed("description")?.text()?,
        value: context.needed("value")?.text()?,
    })
}

fn needed_content(message: &Field<'_>) -> Result<String, BadInput> {
    content_text(&message.needed("content")?)
}

/// A text, or the texts of a list of parts.
fn content_text(content: &Field<'_>) -> Result<String, BadInput> {
    if content.is_text() {
        return content.text();
    }
    let parts = content.list_or("a string or a list of parts")?;
    let texts: Vec<String> = parts.iter().map(part).collect::<Result<_, _>>()?;
    Ok(texts.join("\n"))
}

fn part(part: &Field<'_>) -> Result<String, BadInput> {
    let kind = part.needed("type")?.text()?;
    if kind != "text" {
        let kind = kind.chars().take(40).collect();
        return Err(BadInput::NotText { field: part.path().to_owned(), kind });
    }
    part.needed("text")?.text()
}

#[cfg(test)]
mod tests;
