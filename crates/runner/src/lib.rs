//! The agent front door: `POST /stream` puts an agent into a fresh sandbox, and
//! what it does becomes an ordered log that anybody with the key can follow.
//!
//! One driver task each is the only code that writes a run's log; everybody
//! else follows the file.

mod accept;
mod agui;
mod archive;
mod assets;
mod attend;
mod book;
mod caller;
mod clock;
mod described;
mod dispatch;
mod driver;
mod fault;
mod fields;
mod follow;
mod hearing;
mod hooks;
mod info;
mod lines;
pub mod link;
mod list;
mod log;
mod look;
mod names;
mod office;
mod opening;
mod projection;
mod recovery;
mod retention;
mod routes;
mod run;
mod starting;
mod stream;
mod tally;
mod verdict;

pub use office::{OpenError, Runner, Settings};
pub use routes::router;
