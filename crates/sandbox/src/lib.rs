//! The life of a sandbox: who may make one, how long it lives, what runs in
//! it, and that nothing of it is left.
//!
//! One driver task each is the only code that changes a sandbox; everybody
//! else holds a handle and asks.

mod agent;
mod commands;
mod control;
mod driver;
mod envd;
mod link;
mod log;
mod making;
mod network;
mod policy;
mod pool;
mod process;
mod recovery;
mod registry;
mod resources;
mod tally;
mod templates;
mod token;

pub use agent::AgentError;
pub use commands::Commands;
pub use driver::{EndReason, Sandbox};
pub use envd::{Body, Envd, EnvdError, empty_body, full_body};
pub use isolate::{Cidr, Network};
pub use link::{Link, LinkError};
pub use log::{Log, LogRecord};
pub use making::{CreateError, NewSandbox};
pub use network::NetworkError;
pub use policy::{BadTimeout, Lifetime};
pub use process::{Events, Next, ProcessError, StartOptions, Unread};
pub use registry::{Closing, Sandboxes, SandboxesError, Settings};
pub use resources::Resources;
pub use tally::Tally;
pub use templates::{
    Addition, BadTemplateName, Defaults, Draft, DraftError, HostError, ImportError, Label,
    Progress, Replace, Template, TemplateError, TemplateInfo, Templates,
};
pub use token::{AccessTokens, KeyFileError};
