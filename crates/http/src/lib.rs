//! What every HTTP server of ours shares: faults, keys, bodies as JSON, the
//! request log, `/metrics` text and an orderly stop.

mod auth;
mod fault;
mod json;
mod metrics;
mod requests;
mod serve;

pub use auth::{Caller, Keys, Team};
pub use fault::{Fault, chain};
pub use json::{Body, Query};
pub use metrics::{Exposition, Histogram};
pub use requests::{RequestCounts, log_requests};
pub use serve::serve;
