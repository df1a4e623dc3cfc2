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
mod making;
mod policy;
mod pool;
mod recovery;
mod registry;
mod resources;
mod tally;
mod templates;
mod token;

pub use commands::Commands;
pub use driver::{EndReason, Sandbox};
pub use envd::{Body, Envd, EnvdError, empty_body, full_body};
pub use log::{Log, LogRecord};
pub use making::{CreateError, NewSandbox};
pub use policy::{BadTimeout, Lifetime};
pub use registry::{Closing, Sandboxes, SandboxesError, Settings};
pub use resources::Resources;
pub use tally::Tally;
pub use templates::{
    BadTemplateName, Defaults, HostError, ImportError, Label, Progress, Template, TemplateError,
    TemplateInfo, Templates,
};
pub use token::{AccessTokens, KeyFileError};
