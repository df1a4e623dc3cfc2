//! Real directories under real hands.

#![expect(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod directories;
mod files;
mod fold;
mod hostile;
mod storm;
