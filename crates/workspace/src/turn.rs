//! A turn: a user's message and all that answers it.
//!
//! ```text
//! runner ── lines ──► processor ── events ──► book ──► store ──► followers ──► SSE
//!                                              └── fold ──► the assistant's message
//! ```
//!
//! One task per turn, its driver, is the only one that writes: events in order,
//! then the assistant's message and the terminating event at once. Readers page
//! through the store, so one that is slow, late or gone costs nothing.

mod book;
mod driver;
mod emitter;
mod event;
mod fold;
mod follow;
mod listeners;
mod live;
mod message;
mod processor;
mod recovery;
mod routes;
mod start;
mod verdict;

pub(crate) use fold::Block;
pub(crate) use follow::Follower;
pub(crate) use live::{Stop, Turns};
pub(crate) use message::MessageInfo;
pub(crate) use routes::routes;
pub(crate) use start::NewTurn;
