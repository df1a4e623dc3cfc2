//! A template's name: what it may be made of, checked before it meets a path.

/// What the template made from the host is called.
pub(super) const DEV: &str = "dev";
/// What the official clients ask for when nobody says otherwise.
pub(super) const BASE: &str = "base";

const MAX_LENGTH: usize = 64;

/// A name that is safe as a directory's. It has no dot, so `<name>.partial`
/// is never anybody's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TemplateName(String);

/// A text that is no template's name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("name must be 1 to {MAX_LENGTH} characters of a-z, 0-9, `-` and `_`")]
pub struct BadTemplateName;

impl TemplateName {
    /// Parses a name as a client or an operator wrote it.
    pub(super) fn parse(text: &str) -> Result<TemplateName, BadTemplateName> {
        let plain = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        };
        if text.is_empty() || text.len() > MAX_LENGTH || !text.bytes().all(plain) {
            return Err(BadTemplateName);
        }
        Ok(TemplateName(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{BadTemplateName, TemplateName};

    #[test]
    fn a_name_is_short_and_plain() {
        for good in ["base", "a", "code-interpreter-v1", "my_box", "0", &"x".repeat(64)] {
            assert_eq!(TemplateName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "Base", "a.b", "a/b", "..", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert_eq!(TemplateName::parse(bad), Err(BadTemplateName), "{bad:?}");
        }
    }

    #[test]
    fn the_error_names_the_field() {
        assert!(BadTemplateName.to_string().starts_with("name must be"));
    }
}
