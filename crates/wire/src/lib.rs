//! Formats without I/O: what travels between clients, servers and sandboxes.
//!
//! Nothing here has a clock, a socket or a task. Arbitrary bytes never panic a
//! decoder of this crate and never make it allocate more than the limit its
//! caller gave.

pub mod agent;
pub mod agui;
mod code;
mod codec;
mod command;
mod control;
mod e2b;
mod envelope;
mod id;
mod output;
pub mod process;
mod random_name;
pub mod rpc;
pub mod run;
mod secret;
pub mod sse;
mod text;
pub mod workspace;

pub use code::{Code, ConnectError};
pub use codec::{Codec, DecodeError, base64, hex};
pub use command::{CommandInfo, CommandLine, CommandReason, CommandRequest, CommandState};
pub use control::{ControlMessage, Init, Outcome, Started};
pub use e2b::{
    Connect, ListedSandbox, LogEntry, LogLine, Logs, NetworkConfig, NetworkUpdate, NewSandbox,
    Refresh, RestError, Sandbox, SandboxDetail, SandboxState, SetTimeout,
};
pub use envelope::{
    Envelope, EnvelopeDecoder, EnvelopeError, MESSAGE_LIMIT, end_of_stream, frame, unpack_gzip,
};
pub use id::{BadId, SandboxId};
pub use output::{Stream, encode_data, events_in, next_event};
pub use secret::{Secret, exposed};
pub use text::TextDecoder;
