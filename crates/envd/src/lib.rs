//! The daemon inside every sandbox. It speaks E2B's envd protocol on a socket
//! that the host made and passed in, and tells the host about its commands on
//! a private control stream.
//!
//! One thread: state is in `Rc` and `RefCell`, and no lock exists. Memory is
//! bounded everywhere, because what runs beside it is hostile.

mod options;

mod daemon;
mod flush_watch;
mod link;
mod server;
mod tunnel;

mod connect;
mod fault;
mod rpc;

mod environment;
mod users;

mod pty;
mod spawn;
mod system;

mod command;
mod exit;
mod input;
mod memory;
mod table;

mod output;
mod pump;
mod reader;
mod supervise;

mod control;
mod reaper;
mod teardown;

pub use daemon::{DaemonError, run};
pub use options::{Identities, Invocation, Listen, Options, OptionsError};
