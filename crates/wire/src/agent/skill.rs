//! Skills by reference. Id and version become parts of URLs and of paths
//! inside the sandbox, so both are parsed before anything is done with them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A skill bundle that is attached to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    /// Its name in URLs and paths.
    pub id: SkillId,
    /// Its name for the model; the id when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// SHA-256 of the zip.
    pub version: SkillVersion,
    /// Where the zip is. Inside a sandbox this is always given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl SkillRef {
    /// The name for the model.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(self.id.as_str())
    }
}

/// A skill's id: letters, digits, `_`, `-` and inner dots, so that it is safe
/// in a URL and as the name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillId(String);

/// A skill's version: the SHA-256 of its zip as 64 lowercase hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillVersion(String);

/// The text names no skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSkill {
    /// Not an id.
    #[error("a skill id is 1 to 128 letters, digits, `_`, `-` and inner dots")]
    Id,
    /// Not a version.
    #[error("a skill version is a SHA-256 as 64 hex digits")]
    Version,
}

impl SkillId {
    /// Longest id accepted: it fits a file name with room to spare.
    const MAX: usize = 128;

    /// Reads an id from outside.
    pub fn parse(text: &str) -> Result<SkillId, BadSkill> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
        let inner_dots = !text.starts_with('.') && !text.ends_with('.') && !text.contains("..");
        if text.is_empty() || text.len() > Self::MAX || !text.bytes().all(plain) || !inner_dots {
            return Err(BadSkill::Id);
        }
        Ok(SkillId(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SkillVersion {
    /// Reads a version from outside; capital digits are taken and made small.
    pub fn parse(text: &str) -> Result<SkillVersion, BadSkill> {
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadSkill::Version);
        }
        Ok(SkillVersion(text.to_ascii_lowercase()))
    }

    /// The version as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SkillId {
    type Error = BadSkill;

    fn try_from(text: String) -> Result<SkillId, BadSkill> {
        SkillId::parse(&text)
    }
}

impl From<SkillId> for String {
    fn from(id: SkillId) -> String {
        id.0
    }
}

impl fmt::Display for SkillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SkillVersion {
    type Error = BadSkill;

    fn try_from(text: String) -> Result<SkillVersion, BadSkill> {
        SkillVersion::parse(&text)
    }
}

impl From<SkillVersion> for String {
    fn from(version: SkillVersion) -> String {
        version.0
    }
}

impl fmt::Display for SkillVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
