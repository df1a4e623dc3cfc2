//! A value that must not end up in a log.

use std::fmt;

/// Wraps a secret: no `Display`, and `Debug` prints dots.
#[derive(Clone)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps the value.
    pub fn new(value: T) -> Secret<T> {
        Secret(value)
    }

    /// The value itself. Each caller is a place to look at in a review.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("•••")
    }
}

/// For `#[serde(with = "exposed")]`: a secret that is written in the open, in a
/// document that is one itself. Spelled out at each field, so that none is
/// written by accident.
pub mod exposed {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Secret;

    /// Writes the secret.
    pub fn serialize<S: Serializer>(secret: &Secret<String>, into: S) -> Result<S::Ok, S::Error> {
        into.serialize_str(secret.expose())
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret<String>, D::Error> {
        String::deserialize(from).map(Secret::new)
    }
}
