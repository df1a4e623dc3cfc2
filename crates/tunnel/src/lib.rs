//! Many connections over one pair of pipes, for sandboxes that share no socket
//! with their host.
//!
//! One side opens connections, the other accepts them. Each has credit of its
//! own, so one that nobody reads holds up no other. Neither side trusts the
//! other: what it may make us keep is bounded, and a broken rule ends the tunnel.
//!
//! A session can be finished at a frame's edge by both sides and the next one
//! begun on the same pipes, or on new ones after a checkpoint was restored.

mod frame;
mod hub;
mod pump;
mod session;

pub use session::{
    Accepted, LINK_GREETING, Opener, Orders, Parting, accept_side, accepting, open_side, opening,
};
