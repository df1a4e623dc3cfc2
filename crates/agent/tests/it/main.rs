//! The real program against a host link on loopback.

#![expect(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod boot;
mod bridge;
mod callbacks;
mod code_mode;
mod harness;
mod host;
mod mcp;
mod models;
mod program;
mod rounds;
mod scene;
mod upload;
mod zips;
