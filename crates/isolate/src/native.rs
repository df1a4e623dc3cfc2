//! The `native` tier: namespaces, own ids, layers by descriptor, cgroups,
//! a system call filter. Built and kept by one keeper process per sandbox.

mod spec;

pub(crate) mod cgroup;
mod keeper;
mod link;
mod walls;

mod capabilities;
mod clone;
mod disk;
mod image;
mod init;
mod loop_device;
mod loopback;
mod mount;
mod netlink;
mod network;
mod orders;
mod range;
mod root;
mod rules;
mod seccomp;
mod stock;
mod trial;
mod users;

pub use keeper::keep;
pub use link::{Wired, Wiring, find_nft};
pub use spec::{HostUsr, Limits, Privilege};
pub use stock::disk_limit;
pub use trial::{is_trial, try_without_root};
pub use walls::Native;
