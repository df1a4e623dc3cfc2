//! The workspace's routes on a real port, with a real store and real blobs. A
//! runner is played by a small server here; `conformance/workspace` has the real one.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod bag;
mod chat;
mod resources;
mod workflows;
