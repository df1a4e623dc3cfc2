//! The messages of a front end, as a configuration has them: what was said before,
//! and what is to be answered.

use std::collections::HashMap;

use wire::{
    agent::{Content, Message, Part, Role},
    agui::{InputCall, InputContext, InputMessage},
};

use crate::{dispatch::PROMPT_LIMIT, fields::BadBody};

/// What a front end knows of a conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    /// What the model is told first.
    system: Vec<String>,
    /// What was said before.
    pub(super) messages: Vec<Message>,
    /// What is to be answered.
    pub(super) ending: Ending,
}

/// What is to be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// What the user said last.
    Prompt(String),
    /// What the client's tools returned, each with the name of its tool. The
    /// messages have them too.
    Results(Vec<(String, String)>),
}

impl Conversation {
    /// Reads the messages; the last has to be a user's or a tool's.
    pub(super) fn read(
        given: Vec<InputMessage>,
        context: &[InputContext],
    ) -> Result<Conversation, BadBody> {
        let mut system = Vec::new();
        let mut messages: Vec<Message> = Vec::new();
        let mut names: HashMap<String, String> = HashMap::new();
        // What was said last, until somebody else says more.
        let (mut prompt, mut results) = (None, Vec::new());
        for message in given {
            if !matches!(message, InputMessage::System { .. })
                && let Some(text) = prompt.take()
            {
                messages.push(Message { role: Role::User, content: Content::Text(text) });
            }
            match message {
                InputMessage::System { text } => system.push(text),
                InputMessage::User { text } => {
                    results.clear();
                    prompt = Some(text);
                }
                InputMessage::Assistant { text, calls } => {
                    results.clear();
                    for call in &calls {
                        names.insert(call.id.clone(), call.name.clone());
                    }
                    let parts = said(text, calls);
                    // Front ends keep messages that only ever had thoughts.
                    if !parts.is_empty() {
                        let content = Content::Parts(parts);
                        messages.push(Message { role: Role::Assistant, content });
                    }
                }
                InputMessage::Tool { call_id, text, error } => {
                    let content = returned(text, error);
                    let name = names.get(&call_id).unwrap_or(&call_id).clone();
                    results.push((name, content.clone()));
                    let part = Part::ToolResult { id: call_id, content };
                    let content = Content::Parts(vec![part]);
                    messages.push(Message { role: Role::User, content });
                }
            }
        }
        system.extend(context.iter().map(|one| format!("{}: {}", one.description, one.value)));
        let ending = match prompt {
            Some(text) => Ending::Prompt(text),
            None => Ending::Results(results),
        };
        ending.check()?;
        Ok(Conversation { system, messages, ending })
    }

    /// What the model is told first, behind what it is told anyway.
    pub(super) fn system_prompt(&self, given: &str) -> String {
        let texts = std::iter::once(given).chain(self.system.iter().map(String::as_str));
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        texts.join("\n\n")
    }
}

/// What the assistant said and called, as parts of one message.
fn said(text: String, calls: Vec<InputCall>) -> Vec<Part> {
    let text = Some(text).filter(|text| !text.is_empty()).map(|text| Part::Text { text });
    let calls = calls.into_iter().map(|call| {
        let InputCall { id, name, args } = call;
        Part::ToolCall { id, name, args }
    });
    text.into_iter().chain(calls).collect()
}

/// What a tool returned, as the model is told it.
fn returned(text: String, error: Option<String>) -> String {
    match error {
        Some(error) if text.is_empty() => format!("Error: {error}"),
        Some(error) => format!("Error: {error}\n{text}"),
        None => text,
    }
}

impl Ending {
    /// The prompt for our own loop, which reads results from the messages.
    pub(super) fn for_model(self) -> String {
        match self {
            Ending::Prompt(text) => text,
            Ending::Results(_) => String::new(),
        }
    }

    /// The prompt for a program that keeps a conversation of its own.
    pub(super) fn for_program(self) -> String {
        match self {
            Ending::Prompt(text) => text,
            Ending::Results(results) => {
                let results = results.iter().map(|(name, content)| format!("{name}: {content}"));
                let results: Vec<String> = results.collect();
                format!("Tool results:\n\n{}", results.join("\n\n"))
            }
        }
    }

    fn check(&self) -> Result<(), BadBody> {
        let must = match self {
            Ending::Prompt(text) if text.trim().is_empty() => "must not end with an empty text",
            Ending::Prompt(text) if text.len() > PROMPT_LIMIT => {
                "must end with a text of at most 1 MiB"
            }
            Ending::Results(results) if results.is_empty() => {
                "must end with what a user said or what a tool returned"
            }
            Ending::Prompt(_) | Ending::Results(_) => return Ok(()),
        };
        Err(BadBody::Wrong { field: "messages".to_owned(), must: must.to_owned() })
    }
}
