//! The `native` tier: namespaces, own ids, layers by descriptor, cgroups,
//! a system call filter. Built and kept by one keeper process per sandbox.

mod spec;

pub(crate) mod cgroup;
mod keeper;
mod walls;

mod capabilities;
mod clone;
mod init;
mod loopback;
mod mount;
mod root;
mod seccomp;
mod users;

pub use keeper::keep;
pub use spec::{HostUsr, Limits};
pub use walls::Native;
