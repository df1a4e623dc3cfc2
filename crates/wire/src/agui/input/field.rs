//! A value with its path, so that each fault names its field.

use serde_json::{Map, Value};

use super::BadInput;

/// A value somewhere in a document.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    /// The whole document.
    pub(super) fn root(value: &'a Value) -> Field<'a> {
        Field { path: String::new(), value }
    }

    /// Where it is, as a reader of JavaScript would write it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// A field that has to be there.
    pub(super) fn needed(&self, name: &str) -> Result<Field<'a>, BadInput> {
        self.object()?;
        self.optional(name).ok_or_else(|| BadInput::Missing(self.below(name)))
    }

    /// A field that need not be there; `null` is nothing.
    pub(super) fn optional(&self, name: &str) -> Option<Field<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Field { path: self.below(name), value })
    }

    /// The items of a field that need not be there, each read.
    pub(super) fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&Field<'a>) -> Result<T, BadInput>,
    ) -> Result<Vec<T>, BadInput> {
        match self.optional(name) {
            Some(list) => list.items()?.iter().map(read).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Result<Vec<Field<'a>>, BadInput> {
        self.list_or("a list")
    }

    /// The items of what is a list or should be `expected`.
    pub(super) fn list_or(&self, expected: &'static str) -> Result<Vec<Field<'a>>, BadInput> {
        let Value::Array(items) = self.value else {
            return Err(self.wrong(expected));
        };
        let at = |(index, value)| Field { path: format!("{}[{index}]", self.path), value };
        Ok(items.iter().enumerate().map(at).collect())
    }

    /// An object.
    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, BadInput> {
        self.value.as_object().ok_or_else(|| self.wrong("an object"))
    }

    /// Whether it is a text.
    pub(super) fn is_text(&self) -> bool {
        self.value.is_string()
    }

    /// A text.
    pub(super) fn text(&self) -> Result<String, BadInput> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong("a string"))
    }

    fn wrong(&self, expected: &'static str) -> BadInput {
        let field = if self.path.is_empty() { "the body" } else { &self.path };
        BadInput::Wrong { field: field.to_owned(), expected }
    }

    fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}
