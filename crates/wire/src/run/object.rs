//! A JSON object taken apart field by field, so that each fault names its field.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{
    BadLine,
    line::{excerpt, one_line},
};

/// The fields of one line that nobody has taken yet.
pub(super) struct Object(Map<String, Value>);

impl Object {
    /// Reads a line that holds one object.
    pub(super) fn parse(line: &[u8]) -> Result<Object, BadLine> {
        let fields: Fields =
            serde_json::from_slice(one_line(line)?).map_err(|_| BadLine::NotJson)?;
        match fields.duplicate {
            Some(key) => Err(BadLine::Duplicate(excerpt(&key))),
            None => Ok(Object(fields.map)),
        }
    }

    /// A field that may hold anything, `null` too.
    pub(super) fn value(&mut self, field: &'static str) -> Result<Value, BadLine> {
        self.0.remove(field).ok_or(BadLine::Missing(field))
    }

    /// A field that holds text.
    pub(super) fn text(&mut self, field: &'static str) -> Result<String, BadLine> {
        self.read(field, "a string")
    }

    /// A field that holds one of a few things.
    pub(super) fn read<T: for<'de> Deserialize<'de>>(
        &mut self,
        field: &'static str,
        expected: &'static str,
    ) -> Result<T, BadLine> {
        let value = self.value(field)?;
        T::deserialize(value).map_err(|_| BadLine::Wrong { field, expected })
    }

    /// A field that need not be there.
    pub(super) fn optional<T: for<'de> Deserialize<'de>>(
        &mut self,
        field: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, BadLine> {
        if self.0.contains_key(field) { self.read(field, expected).map(Some) } else { Ok(None) }
    }
}

struct Fields {
    map: Map<String, Value>,
    duplicate: Option<String>,
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
        let mut fields = Fields { map: Map::new(), duplicate: None };
        while let Some(key) = access.next_key::<String>()? {
            if fields.map.contains_key(&key) {
                fields.duplicate.get_or_insert_with(|| key.clone());
            }
            fields.map.insert(key, access.next_value()?);
        }
        Ok(fields)
    }
}
