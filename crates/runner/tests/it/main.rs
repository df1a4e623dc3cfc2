//! The runner as its callers and its sandboxes see it.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod link;
mod runs;
