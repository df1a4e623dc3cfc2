//! Files of ours that programs inside see, the same in every tier with a file
//! tree of its own.

use std::net::Ipv4Addr;

/// What names the sandbox to its programs, and others to it: files of its `/etc`.
pub(crate) fn identity(id: &str, name_servers: &[Ipv4Addr]) -> [(&'static str, String); 3] {
    let servers = name_servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    [
        ("hostname", format!("{id}\n")),
        ("hosts", format!("127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t{id}\n")),
        (
            "resolv.conf",
            if name_servers.is_empty() { "# no network\n".to_owned() } else { servers },
        ),
    ]
}

/// What programs size themselves by. The numbers are the limit, not the host's.
pub(crate) fn meminfo(memory_mib: u32) -> String {
    let total = u64::from(memory_mib) << 10;
    format!(
        "MemTotal:       {total:>8} kB\nMemFree:        {total:>8} kB\nMemAvailable:   {total:>8} kB\n\
         Buffers:               0 kB\nCached:                0 kB\nSwapCached:            0 kB\n\
         SwapTotal:             0 kB\nSwapFree:              0 kB\n"
    )
}
