//! The life of a sandbox: who may make one, how long it lives, what runs in
//! it, and that nothing of it is left.
//!
//! One driver task each is the only code that changes a sandbox; everybody
//! else holds a handle and asks.

mod commands;
mod control;
mod driver;
mod envd;
mod log;
mod policy;
mod registry;
mod resources;
mod tally;
mod token;

pub use commands::Commands;
pub use driver::{EndReason, Sandbox};
pub use envd::{Body, Envd, EnvdError, empty_body, full_body};
pub use log::{Log, LogRecord};
pub use policy::{BadTimeout, Lifetime};
pub use registry::{CreateError, NewSandbox, Sandboxes, Settings};
pub use resources::Resources;
pub use tally::Tally;
pub use token::{AccessTokens, KeyFileError};
