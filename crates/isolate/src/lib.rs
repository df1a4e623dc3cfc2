//! The walls: starts a command behind them and takes everything down again.
//!
//! This crate does not know what the command is. It hands it a listening
//! socket, keeps the other end, and promises that after `kill` nothing is
//! left: no process, no directory.

mod error;
mod process;
mod tier;
mod tree;

pub use error::Error;
pub use process::{Instance, Prepared, Process};
pub use tier::{BadTier, Tier};
