//! The caller's side of a runner: who mints one-time tokens, answers a
//! sandbox's callbacks, keeps conversations and owns files.
//!
//! It reaches the runner over HTTP only, as anybody else's workspace would, and
//! knows nothing of how sandboxes are made.

mod bag;
mod body;
mod callbacks;
mod chat;
mod clock;
mod conversations;
mod depth;
mod files;
mod housekeeping;
mod keyring;
mod member;
mod page;
mod problem;
mod resolve;
mod resources;
mod routes;
mod runner;
mod settings;
mod signature;
mod skills;
mod state;
mod tables;
mod tokens;
mod turn;
mod workflows;

pub use routes::router;
pub use settings::{RunnerAddress, RunnerKey, Settings, team_of_derived_key};
pub use state::Workspace;
