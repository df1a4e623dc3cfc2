//! What a sandbox may use. Without walls that is the whole host.

use std::{fs, path::Path};

use isolate::{Error, Limits, Tier, Walls};

/// Space that sandboxes leave on the host's disk. Their disks take space when
/// it is written to, so all of them together may be promised more than there is.
pub(crate) const KEPT_FREE_MIB: u64 = 1024;
/// What a sandbox may use, besides disk.
const LIMITS: Limits = Limits { cpus: 2, memory_mib: 1024, processes: 1024, disk_mib: 0 };

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
    /// What the limits allow. A disk without a limit is the host's.
    pub(crate) fn of_limits(limits: Limits, directory: &Path) -> Resources {
        let disk_mib = match limits.disk_mib {
            0 => Resources::of_host(directory).disk_mib,
            mib => mib,
        };
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

/// What every sandbox may use. The disk has its limit where that can be had, and
/// where not, the operator hears of it: nobody else would.
pub(crate) fn limits(walls: &dyn Walls, tier: Tier, disk_mib: u32) -> Result<Limits, Error> {
    if disk_mib == 0 || !tier.has_walls() {
        return Ok(LIMITS);
    }
    match walls.limit_disks(disk_mib) {
        Ok(()) => Ok(Limits { disk_mib, ..LIMITS }),
        Err(why @ (Error::Unavailable { .. } | Error::Unsupported { .. })) => {
            tracing::warn!("sandboxes may fill the host's disk, as it has no limit here: {why}");
            Ok(LIMITS)
        }
        Err(err) => Err(err),
    }
}

/// The limits of a template whose programs need other memory than most.
pub(crate) fn with_memory(limits: Limits, memory_mib: Option<u32>) -> Limits {
    Limits { memory_mib: memory_mib.unwrap_or(limits.memory_mib), ..limits }
}

/// Space left where sandboxes are; more than enough where the host does not tell.
pub(crate) fn free_mib(directory: &Path) -> u64 {
    nix::sys::statvfs::statvfs(directory)
        .map_or(u64::MAX, |stat| (stat.blocks_available() * stat.fragment_size()) >> 20)
}

fn memory_mib() -> Option<u32> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    u32::try_from(kib >> 10).ok()
}
