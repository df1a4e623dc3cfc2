//! Rows and files that outlive the server.
//!
//! SQLite in the data directory, nothing to install, or a PostgreSQL server. No
//! key or token is ever stored, only its hash. What a sandbox does while it
//! lives is not here: the registry in `sandbox` is the truth about the living,
//! this is what survives a restart.

mod blobs;
mod conversations;
mod database;
mod executions;
mod files;
mod keys;
mod resources;
mod rows;
mod runs;
mod sandboxes;
mod sessions;
mod streams;
mod turns;

pub use blobs::{Blob, BlobError, Blobs, GetError, OpenBlobsError, PutError, Written};
pub use conversations::{ConversationRow, MessageRole, MessageRow};
pub use database::{CopyError, DATABASE_FILE, OpenError, Store, StoreError};
pub use executions::{ExecutionEnd, ExecutionRow, ExecutionState};
pub use files::{FileRow, FileSource, ReserveError, Reserved, Shelf};
pub use keys::{ApiKey, KeyError, NewKey};
pub use resources::{ResourceError, ResourceRow};
pub use rows::TableRow;
pub use runs::{OnDisconnect, RunCursor, RunEnd, RunRow, RunState};
pub use sandboxes::SandboxRow;
pub use sessions::{NewBearer, NewOtp, OtpKind, OtpRefusal, SessionCaller, SessionRow};
pub use streams::StreamEvent;
pub use turns::{BeginTurnError, TurnEnd, TurnRow, TurnState};
