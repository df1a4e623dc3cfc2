//! Reads a tool's arguments, and names the one that is wrong.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::ToolError;

/// The arguments of one call, taken one by one.
pub(super) struct Fields<'a> {
    tool: &'static str,
    fields: &'a Map<String, Value>,
    known: BTreeSet<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(tool: &'static str, fields: &'a Map<String, Value>) -> Fields<'a> {
        Fields { tool, fields, known: BTreeSet::new() }
    }

    /// A text that must be there.
    pub(super) fn text(&mut self, name: &'static str) -> Result<&'a str, ToolError> {
        self.optional_text(name)?.ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// A text that may be left out.
    pub(super) fn optional_text(
        &mut self,
        name: &'static str,
    ) -> Result<Option<&'a str>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "is not a string")),
        }
    }

    /// A positive number that may be left out. Some models write `5.0`.
    pub(super) fn optional_count(&mut self, name: &'static str) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let whole = |number: &f64| number.fract() == 0.0 && *number < 1e15;
        let count = value.as_u64().or_else(|| value.as_f64().filter(whole).map(|n| n as u64));
        match count {
            Some(count) if count > 0 => Ok(Some(count)),
            Some(_) | None => Err(self.wrong(name, "is not a positive integer")),
        }
    }

    /// An object that may be left out.
    pub(super) fn optional_object(
        &mut self,
        name: &'static str,
    ) -> Result<Option<&'a Map<String, Value>>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields)),
            Some(_) => Err(self.wrong(name, "is not an object")),
        }
    }

    /// Says that nothing else may be there: a misspelt name is not ignored.
    pub(super) fn end(&self) -> Result<(), ToolError> {
        match self.fields.keys().find(|name| !self.known.contains(name.as_str())) {
            Some(name) => Err(self.wrong(name, "is not an argument of this tool")),
            None => Ok(()),
        }
    }

    /// The error for one argument.
    pub(super) fn wrong(&self, name: &str, what: &str) -> ToolError {
        ToolError::new(format!("{}: `{name}` {what}", self.tool))
    }

    fn take(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.insert(name);
        self.fields.get(name).filter(|value| !value.is_null())
    }
}
