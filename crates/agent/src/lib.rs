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

mod session;
mod turn;

mod mcp;
mod model;
mod skills;
mod tools;

mod writeback;

mod emit;
mod failure;
mod http;
mod json;
mod shell;

pub use life::live;
