//! Reading an object field by field, so that every mistake has the field's name.

use serde_json::{Map, Value};

/// What is wrong with a body, by the name of the field.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadBody {
    /// It is not an object at all.
    #[error("the body is not a JSON object: {0}")]
    NotAnObject(String),
    /// A field that has to be there is not.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A field is there under both of its names.
    #[error("`{0}` is there twice, also as `{1}`")]
    Twice(String, String),
    /// A field holds what it must not.
    #[error("`{field}` {must}")]
    Wrong {
        /// The field.
        field: String,
        /// What it must be.
        must: String,
    },
    /// Two fields exclude each other.
    #[error("`{0}` and `{1}` exclude each other")]
    Both(&'static str, &'static str),
}

/// The fields of one object. A field that says `null` counts as missing.
pub(crate) struct Fields {
    /// What the names of its mistakes begin with; empty for a whole body.
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The fields of a whole body.
    pub(crate) fn of_body(bytes: &[u8]) -> Result<Fields, BadBody> {
        match serde_json::from_slice(bytes) {
            Ok(map) => Ok(Fields { path: String::new(), map }),
            Err(err) => Err(BadBody::NotAnObject(err.to_string())),
        }
    }

    /// The fields of a value that is called `path`; none at all of `null`.
    pub(crate) fn of_value(path: &str, value: Value) -> Result<Fields, BadBody> {
        let path = path.to_owned();
        match value {
            Value::Null => Ok(Fields { path, map: Map::new() }),
            Value::Object(map) => Ok(Fields { path, map }),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(BadBody::Wrong { field: path, must: "must be an object".to_owned() })
            }
        }
    }

    /// The fields of the object in a field; none at all when it is missing.
    pub(crate) fn inside(&mut self, name: &str) -> Result<Fields, BadBody> {
        let value = self.take(name)?.unwrap_or(Value::Null);
        Fields::of_value(&self.named(name), value)
    }

    /// What they are the fields of.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Everything that is left, each of which has to be a text.
    pub(crate) fn texts(self) -> Result<Vec<(String, String)>, BadBody> {
        let Fields { path, map } = self;
        let there = map.into_iter().filter(|(_, value)| !value.is_null());
        let texts = there.map(|(name, value)| {
            let text = value.as_str().map(str::to_owned).ok_or_else(|| BadBody::Wrong {
                field: format!("{path}.{name}"),
                must: "must be a string".to_owned(),
            });
            text.map(|text| (name, text))
        });
        texts.collect()
    }

    /// Takes a list out, each item with its own name; empty when it is missing.
    pub(crate) fn list(
        &mut self,
        name: &str,
        limit: usize,
    ) -> Result<Vec<(String, Value)>, BadBody> {
        let items = match self.take(name)? {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.wrong(name, "must be a list")),
        };
        if items.len() > limit {
            return Err(self.wrong(name, &format!("must have at most {limit} items")));
        }
        let named = self.named(name);
        let items = items.into_iter().enumerate();
        Ok(items.map(|(index, item)| (format!("{named}[{index}]"), item)).collect())
    }

    /// Takes a field out, under its own name or the same in camel case.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<Value>, BadBody> {
        let plain = self.map.remove(name).filter(|value| !value.is_null());
        let alias = camel_case(name);
        if alias == name {
            return Ok(plain);
        }
        let other = self.map.remove(&alias).filter(|value| !value.is_null());
        match (plain, other) {
            (Some(_), Some(_)) => Err(BadBody::Twice(self.named(name), alias)),
            (plain, other) => Ok(plain.or(other)),
        }
    }

    /// Takes a text out: not empty, at most `limit` bytes.
    pub(crate) fn text(&mut self, name: &str, limit: usize) -> Result<Option<String>, BadBody> {
        match self.take(name)? {
            None => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => {
                Err(self.wrong(name, "must not be empty"))
            }
            Some(Value::String(text)) if text.len() > limit => {
                Err(self.wrong(name, &format!("must be at most {limit} bytes long")))
            }
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "must be a string")),
        }
    }

    /// Takes a number out that is at least one.
    pub(crate) fn count(&mut self, name: &str) -> Result<Option<u64>, BadBody> {
        match self.take(name)? {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) if number > 0 => Ok(Some(number)),
                Some(_) | None => Err(self.wrong(name, "must be a whole number above 0")),
            },
        }
    }

    /// Refuses what is left.
    pub(crate) fn nothing_else(&self) -> Result<(), BadBody> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(self.wrong(name, "is not known")),
        }
    }

    /// That a field holds what it must not.
    pub(crate) fn wrong(&self, name: &str, must: &str) -> BadBody {
        BadBody::Wrong { field: self.named(name), must: must.to_owned() }
    }

    /// That a field has to be there.
    pub(crate) fn missing(&self, name: &str) -> BadBody {
        BadBody::Missing(self.named(name))
    }

    /// A field's name as mistakes show it.
    pub(crate) fn named(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.extend(letters);
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::{Fields, camel_case};

    #[test]
    fn a_name_in_camel_case_is_the_same_field() {
        for (snake, camel) in [("prompt", "prompt"), ("max_runtime_sec", "maxRuntimeSec")] {
            assert_eq!(camel_case(snake), camel);
        }
        let mut fields = Fields::of_body(br#"{"agentUrl":"a","chat_id":null}"#).unwrap();
        assert_eq!(fields.text("agent_url", 9), Ok(Some("a".to_owned())));
        assert_eq!(fields.text("chat_id", 9), Ok(None));
        assert_eq!(fields.nothing_else(), Ok(()));
        let mut fields = Fields::of_body(br#"{"agentUrl":"a","agent_url":"a"}"#).unwrap();
        let twice = fields.text("agent_url", 9).unwrap_err().to_string();
        assert_eq!(twice, "`agent_url` is there twice, also as `agentUrl`");
    }
}
