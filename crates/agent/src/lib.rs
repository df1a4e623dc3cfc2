//! The mind inside a sandbox. It is told what to do on its standard input,
//! says what it does on its standard output, and reaches the world through the
//! host link alone: plain HTTP on loopback, no TLS, no DNS.
//!
//! Everything here runs beside hostile code, as the sandbox's own root. It
//! keeps no secret from the sandbox but those that are still good for
//! something: one-time tokens stay in its memory.

mod life;

mod bootstrap;
mod unpack;

mod harness;
mod session;
mod turn;

mod bridge;
mod code_mode;
mod local_mcp;
mod mcp;
mod model;
mod policy;
mod skills;
mod tools;

mod files;
mod writeback;

mod descendants;
mod emit;
mod failure;
mod http;
mod json;
mod shell;

pub use life::live;
