//! Rows that outlive the server: API keys, sandboxes and runs.
//!
//! SQLite in the data directory, nothing to install. No key is ever stored,
//! only its hash. What a sandbox does while it lives is not here: the registry
//! in `sandbox` is the truth about the living, this is what survives a restart.

mod database;
mod keys;
mod runs;
mod sandboxes;

pub use database::{DATABASE_FILE, OpenError, Store, StoreError};
pub use keys::{ApiKey, KeyError, NewKey};
pub use runs::{OnDisconnect, RunCursor, RunEnd, RunRow, RunState};
pub use sandboxes::SandboxRow;
