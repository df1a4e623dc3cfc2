//! Files of ours that programs inside see, the same in every tier with a file
//! tree of its own.

/// What names the sandbox to its programs: files of its `/etc`.
pub(crate) fn identity(id: &str) -> [(&'static str, String); 3] {
    [
        ("hostname", format!("{id}\n")),
        ("hosts", format!("127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t{id}\n")),
        ("resolv.conf", "# no network\n".to_owned()),
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
