//! The sandbox front door: E2B's control plane, the data plane in front of
//! every envd, and the plain NDJSON alias `/commands`.
//!
//! Bytes of the data plane pass as they are; nothing here re-encodes them.

mod caller;
mod commands;
mod data_plane;
mod described;
mod e2b;
mod fault;
mod health;
mod metrics;
mod not_yet;
mod routes;
mod state;

pub use routes::{document, router};
pub use state::{Gateway, MoreMetrics, Settings};
