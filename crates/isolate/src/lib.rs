//! The walls: starts a command behind them and takes everything down again.
//!
//! This crate does not know what the command is. It hands it a listening
//! socket or a tunnel, keeps the other end, and promises that after `kill`
//! nothing is left: no process, no directory.

mod error;
mod native;
mod network;
mod oci;
mod places;
mod process;
mod removal;
mod seen;
mod tier;
mod tree;
mod walls;

pub use error::Error;
pub use native::{
    HostUsr, Limits, Native, Privilege, Wired, Wiring, disk_limit, find_nft, is_trial, keep,
    try_without_root,
};
pub use network::{BadCidr, Cidr, Network};
pub use oci::{Contained, Oci, Runtime};
pub use process::Process;
pub use removal::remove_tree;
pub use tier::{BadTier, Tier};
pub use walls::{Birth, Ended, Found, Identities, Instance, Listen, Plan, Root, Walls};
