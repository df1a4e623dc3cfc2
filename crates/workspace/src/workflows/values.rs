//! What flows between blocks: the outputs of those that are done, and the
//! templates that later ones take them in by.
//!
//! ```text
//! "Sum up {{research.response}}"   text; what is not text is put in as JSON
//! "{{research.files}}"             one reference alone keeps its type
//! "{{research.files.0.name}}"      members and indexes go on behind the output
//! "\{{ not ours }}"                a backslash takes the meaning away
//! ```
//!
//! Templates are parsed when a workflow is stored, so that a mistake is told
//! then. What they grow to is bounded: a short template may repeat a long output.

use std::{collections::HashMap, fmt};

use serde_json::{Map, Value};

use super::graph::is_block_id;
use crate::depth::{DEEPEST, is_too_deep};

/// Bytes that the templates of one input may grow to.
pub(crate) const FILLED_LIMIT: usize = 1 << 20;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// Text with references in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Reference(Reference),
}

/// The name of an output, or of something inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Which block's.
    pub(crate) block: String,
    /// Which output of it.
    pub(crate) output: String,
    /// Members and indexes inside the output.
    inside: Vec<String>,
}

/// Why text is no template.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadTemplate {
    /// A reference without an end.
    #[error("`{OPEN}` has no `{CLOSE}` behind it; write `\\{OPEN}` for the characters themselves")]
    NoEnd,
    /// What is between the braces names no output.
    #[error(
        "`{OPEN}{0}{CLOSE}` is no reference like `{OPEN}block.output{CLOSE}`; write `\\{OPEN}` \
         for the characters themselves"
    )]
    NoReference(String),
}

/// JSON whose strings are templates, at any depth.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    /// What holds no text.
    Plain(Value),
    /// A string.
    Text(Template),
    /// A list.
    List(Vec<Pattern>),
    /// An object; its keys are taken as they are.
    Object(Vec<(String, Pattern)>),
}

/// A string inside a pattern that is no template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadPattern {
    /// Where, seen from the pattern: `.summary[0]`, or nothing.
    pub(crate) path: String,
    /// Why.
    pub(crate) cause: BadTemplate,
}

/// The outputs of the blocks that are done.
#[derive(Debug, Default)]
pub(crate) struct Values(HashMap<String, Map<String, Value>>);

/// Why a template cannot be filled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FillError {
    /// The reference leads to nothing.
    #[error("`{0}` has no value in this execution")]
    NoValue(Reference),
    /// The references are filled with too much.
    #[error("is larger than {FILLED_LIMIT} bytes once its references are filled in")]
    TooLarge,
    /// The references are filled with something that goes too deep.
    #[error("has more than {DEEPEST} levels once its references are filled in")]
    TooDeep,
}

impl Template {
    /// Reads text.
    pub(crate) fn parse(text: &str) -> Result<Template, BadTemplate> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(OPEN) {
            let (before, behind) = (&rest[..at], &rest[at + OPEN.len()..]);
            if let Some(before) = before.strip_suffix('\\') {
                plain.push_str(before);
                plain.push_str(OPEN);
                rest = behind;
                continue;
            }
            plain.push_str(before);
            let end = behind.find(CLOSE).ok_or(BadTemplate::NoEnd)?;
            let reference = Reference::parse(&behind[..end])?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Reference(reference));
            rest = &behind[end + CLOSE.len()..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Template(parts))
    }

    /// The text, if it is the same in every execution.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            [Part::Reference(_)] | [_, _, ..] => None,
        }
    }

    /// Whether it is one reference and nothing else.
    pub(crate) fn is_one_reference(&self) -> bool {
        matches!(self.0.as_slice(), [Part::Reference(_)])
    }

    /// The outputs it needs.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Reference(reference) => Some(reference),
        })
    }

    /// With every reference filled in, as text.
    pub(crate) fn text(&self, values: &Values) -> Result<String, FillError> {
        self.text_within(values, &mut Room::default())
    }

    /// With every reference filled in; one reference alone keeps its type.
    pub(crate) fn value(&self, values: &Values) -> Result<Value, FillError> {
        self.value_within(values, &mut Room::default())
    }

    fn value_within(&self, values: &Values, room: &mut Room) -> Result<Value, FillError> {
        match self.0.as_slice() {
            [Part::Reference(reference)] => {
                let value = values.get(reference)?;
                room.take(value.to_string().len())?;
                Ok(value.clone())
            }
            [] | [Part::Text(_)] | [_, _, ..] => self.text_within(values, room).map(Value::String),
        }
    }

    fn text_within(&self, values: &Values, room: &mut Room) -> Result<String, FillError> {
        let mut filled = String::new();
        for part in &self.0 {
            let before = filled.len();
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Reference(reference) => match values.get(reference)? {
                    Value::String(text) => filled.push_str(text),
                    other @ (Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Array(_)
                    | Value::Object(_)) => filled.push_str(&other.to_string()),
                },
            }
            room.take(filled.len() - before)?;
        }
        Ok(filled)
    }
}

impl Reference {
    fn parse(text: &str) -> Result<Reference, BadTemplate> {
        let bad = || BadTemplate::NoReference(text.chars().take(80).collect());
        let mut names = text.trim().split('.');
        let (Some(block), Some(output)) = (names.next(), names.next()) else {
            return Err(bad());
        };
        let inside: Vec<String> = names.map(str::to_owned).collect();
        let plain = |name: &str| {
            let odd = |c: char| c.is_whitespace() || c.is_control() || c == '{' || c == '}';
            !name.is_empty() && !name.contains(odd)
        };
        if !is_block_id(block) || !plain(output) || !inside.iter().all(|name| plain(name)) {
            return Err(bad());
        }
        Ok(Reference { block: block.to_owned(), output: output.to_owned(), inside })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPEN}{}.{}", self.block, self.output)?;
        for name in &self.inside {
            write!(f, ".{name}")?;
        }
        f.write_str(CLOSE)
    }
}

impl Pattern {
    /// Reads JSON.
    pub(crate) fn parse(value: &Value) -> Result<Pattern, BadPattern> {
        let deeper = |step: String| {
            move |err: BadPattern| BadPattern { path: step + &err.path, cause: err.cause }
        };
        Ok(match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Pattern::Plain(value.clone()),
            Value::String(text) => Pattern::Text(
                Template::parse(text).map_err(|cause| BadPattern { path: String::new(), cause })?,
            ),
            Value::Array(list) => {
                let read = |(index, one): (usize, &Value)| {
                    Pattern::parse(one).map_err(deeper(format!("[{index}]")))
                };
                Pattern::List(list.iter().enumerate().map(read).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let read = |(key, one): (&String, &Value)| {
                    let pattern = Pattern::parse(one).map_err(deeper(format!(".{key}")))?;
                    Ok((key.clone(), pattern))
                };
                Pattern::Object(map.iter().map(read).collect::<Result<_, _>>()?)
            }
        })
    }

    /// The outputs it needs, each with where it needs it: `.summary[0]`.
    pub(crate) fn references(&self) -> Vec<(String, &Reference)> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    fn collect<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a Reference)>) {
        match self {
            Pattern::Plain(_) => {}
            Pattern::Text(template) => {
                found.extend(template.references().map(|one| (path.to_owned(), one)));
            }
            Pattern::List(list) => {
                for (index, one) in list.iter().enumerate() {
                    one.collect(&format!("{path}[{index}]"), found);
                }
            }
            Pattern::Object(members) => {
                for (key, one) in members {
                    one.collect(&format!("{path}.{key}"), found);
                }
            }
        }
    }

    /// With every reference filled in.
    pub(crate) fn value(&self, values: &Values) -> Result<Value, FillError> {
        let filled = self.within(values, &mut Room::default())?;
        if is_too_deep(&filled) { Err(FillError::TooDeep) } else { Ok(filled) }
    }

    fn within(&self, values: &Values, room: &mut Room) -> Result<Value, FillError> {
        Ok(match self {
            Pattern::Plain(value) => value.clone(),
            Pattern::Text(template) => template.value_within(values, room)?,
            Pattern::List(list) => Value::Array(
                list.iter().map(|one| one.within(values, room)).collect::<Result<_, _>>()?,
            ),
            Pattern::Object(members) => {
                let mut map = Map::new();
                for (key, one) in members {
                    map.insert(key.clone(), one.within(values, room)?);
                }
                Value::Object(map)
            }
        })
    }
}

impl Values {
    /// Keeps the outputs of a block.
    pub(crate) fn insert(&mut self, block: &str, outputs: Map<String, Value>) {
        self.0.insert(block.to_owned(), outputs);
    }

    fn get(&self, reference: &Reference) -> Result<&Value, FillError> {
        let none = || FillError::NoValue(reference.clone());
        let outputs = self.0.get(&reference.block).ok_or_else(none)?;
        let mut value = outputs.get(&reference.output).ok_or_else(none)?;
        for name in &reference.inside {
            let inner = match value {
                Value::Object(map) => map.get(name),
                Value::Array(list) => name.parse().ok().and_then(|at: usize| list.get(at)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            };
            value = inner.ok_or_else(none)?;
        }
        Ok(value)
    }
}

/// What is left of [`FILLED_LIMIT`].
struct Room(usize);

impl Default for Room {
    fn default() -> Room {
        Room(FILLED_LIMIT)
    }
}

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), FillError> {
        self.0 = self.0.checked_sub(bytes).ok_or(FillError::TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
