//! The runner as its callers and its sandboxes see it.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod link;
mod runs;
