//! The host link: the one door of a sandbox to us.
//!
//! Programs inside make plain HTTP/1.1 requests to their own loopback; each
//! connection arrives here. A request goes to one of the named upstreams of
//! its run or nowhere. Whoever is inside chooses a route, never an address:
//! addresses come from the dispatch and from the config that passes through,
//! keys are added on this side and never shown to the other.
//!
//! ```text
//! serve ── route ──┬── forward ── outbound (address policy, no redirects) ──► upstream
//!                  ├── broker (key, budget) ── meter (tokens, as they pass)
//!                  ├── tools (bearer, MCP) ── outbound ──► the caller's tools
//!                  └── sessions (archives of harnesses, on disk)
//! ```

mod addresses;
mod body;
mod broker;
mod forward;
mod headers;
mod kept;
mod meter;
mod outbound;
mod policy;
mod refusal;
mod route;
mod seal;
mod serve;
mod sessions;
mod stall;
mod target;
mod tools;
mod upstreams;
mod usage;

pub use addresses::BadConfig;
pub(crate) use kept::Kept;
pub use outbound::{Outbound, OutboundError, UrlRefused};
pub use policy::{AddressPolicy, AddressRange, BadRange};
pub use seal::{SEAL_LABEL, SealError, UnsealError};
pub use serve::serve;
pub use sessions::Sessions;
pub(crate) use sessions::prune as prune_sessions;
pub use target::BadTarget;
pub(crate) use tools::call_number;
pub use upstreams::{Booked, Note, Terms, Upstreams};
pub use usage::{Basis, Usage};
