//! Names that cross the edge, each parsed once.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A sandbox's public name: lowercase letters and digits only, so it is safe
/// in a host name, a path and a cgroup name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct SandboxId(String);

/// The text is not a sandbox id.
#[derive(Debug, thiserror::Error)]
#[error("a sandbox id is 1 to 40 lowercase letters and digits")]
pub struct BadId;

impl SandboxId {
    /// Longest id accepted: with a port in front it still fits a DNS label.
    const MAX: usize = 40;

    /// Reads an id from outside.
    pub fn parse(text: &str) -> Result<SandboxId, BadId> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if text.is_empty() || text.len() > Self::MAX || !text.bytes().all(plain) {
            return Err(BadId);
        }
        Ok(SandboxId(text.to_owned()))
    }

    /// Makes an id from random bytes: `i` and two digits of base 32 a byte.
    pub fn from_random(bytes: [u8; 10]) -> SandboxId {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let digit = |five: u8| char::from(DIGITS[usize::from(five & 31)]);
        let pairs = bytes.iter().flat_map(|b| [digit(*b), digit(*b >> 3)]);
        SandboxId(std::iter::once('i').chain(pairs).collect())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SandboxId {
    type Error = BadId;

    fn try_from(text: String) -> Result<SandboxId, BadId> {
        SandboxId::parse(&text)
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::SandboxId;

    #[track_caller]
    fn check(text: &str, accepted: bool) {
        assert_eq!(SandboxId::parse(text).is_ok(), accepted, "{text:?}");
    }

    #[test]
    fn an_id_is_safe_in_a_host_name_and_a_path() {
        check("i1a2b3", true);
        for bad in ["", "A", "a-b", "a.b", "../x", "a b", "ä", "a\0"] {
            check(bad, false);
        }
        check(&"a".repeat(41), false);
    }

    #[test]
    fn an_id_in_json_is_checked_too() {
        let id: SandboxId = serde_json::from_str("\"i1a2b3\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"i1a2b3\"");
        assert!(serde_json::from_str::<SandboxId>("\"../x\"").is_err());
    }

    #[test]
    fn a_random_id_parses_and_differs_by_every_byte() {
        let one = SandboxId::from_random([7; 10]);
        check(one.as_str(), true);
        assert_eq!(one.as_str().len(), 21);
        for position in 0..10 {
            let mut bytes = [7; 10];
            bytes[position] = 200;
            assert_ne!(one, SandboxId::from_random(bytes));
        }
    }
}
