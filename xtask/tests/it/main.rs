//! Rules of the house that a compiler does not check.

#![expect(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod files;
mod requirements;
mod routes;
mod tree;
mod walls;
