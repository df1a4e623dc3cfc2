//! What a sandbox may use. Without walls that is the whole host.

use std::{fs, path::Path};

use isolate::Limits;

/// Processors, memory and disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Disk in MiB.
    pub disk_mib: u32,
}

impl Resources {
    /// What the limits allow. The disk is the host's until it has a limit too.
    pub(crate) fn of_limits(limits: Limits, directory: &Path) -> Resources {
        let disk_mib = Resources::of_host(directory).disk_mib;
        Resources { cpus: limits.cpus, memory_mib: limits.memory_mib, disk_mib }
    }

    /// The host's own; zero where it does not tell.
    pub(crate) fn of_host(directory: &Path) -> Resources {
        let cpus = std::thread::available_parallelism().map_or(0, |count| count.get());
        let disk = nix::sys::statvfs::statvfs(directory)
            .map_or(0, |stat| (stat.blocks() * stat.fragment_size()) >> 20);
        Resources {
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            memory_mib: memory_mib().unwrap_or(0),
            disk_mib: u32::try_from(disk).unwrap_or(u32::MAX),
        }
    }
}

fn memory_mib() -> Option<u32> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    u32::try_from(kib >> 10).ok()
}
