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
