//! Reading JSON so that what is wrong with it can be named.

use std::fmt;

use serde::de::{DeserializeOwned, Error};

/// A document that is not what it should be.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// The field, as a path; empty for the whole document.
    field: String,
    source: serde_json::Error,
}

/// Reads one document, an object, to its end.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Wrong> {
    // Serde would take a list for an object whose fields come in order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        let source = serde_json::Error::custom("a list, where an object is expected");
        return Err(Wrong { field: String::new(), source });
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|err| Wrong { field: err.path().to_string(), source: err.into_inner() })?;
    deserializer.end().map_err(|source| Wrong { field: String::new(), source })?;
    Ok(value)
}

impl Wrong {
    /// What is wrong, for documents whose values nobody may see: the words of
    /// the parser quote them.
    pub(crate) fn without_values(&self) -> String {
        let (line, column) = (self.source.line(), self.source.column());
        format!("{} is not what it should be at line {line}, column {column}", self.place())
    }

    fn place(&self) -> String {
        match self.field.as_str() {
            "" | "." | "?" => "the document".to_owned(),
            field => format!("field `{field}`"),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.source)
    }
}

#[cfg(test)]
mod tests {
    use wire::agent::{AgentConfig, AgentEnv};

    use super::parse;

    #[test]
    fn the_field_is_named() {
        let config = |text: &str| parse::<AgentConfig>(text.as_bytes()).unwrap_err().to_string();
        let wrong = config(r#"{"skills":[{"id":"../x","version":"1"}]}"#);
        assert!(wrong.starts_with("field `skills[0].id`: a skill id is"), "{wrong}");
        let wrong = config(r#"{"model":{"provider":"gemini"}}"#);
        assert!(wrong.starts_with("field `model.provider`: unknown variant `gemini`"), "{wrong}");
        assert!(config("{").starts_with("the document: "));
        assert!(config(" []").starts_with("the document: a list"));
        assert!(config("{} {}").starts_with("the document: trailing"));
    }

    #[test]
    fn values_are_left_out_where_they_are_secrets() {
        let wrong = parse::<AgentEnv>(br#"{"variables":{"KEY":["hunter2"]}}"#).unwrap_err();
        assert!(wrong.without_values().starts_with("field `variables.KEY` is not what"));
        let wrong = parse::<AgentEnv>(br#"{"variables":"hunter2"}"#).unwrap_err();
        assert!(!wrong.without_values().contains("hunter2"));
    }
}
