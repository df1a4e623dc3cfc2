//! `config.json`: what a runtime is asked for, by the OCI runtime specification.

use serde_json::{Value, json};

use super::{ground::MEMINFO, programs::PROGRAM, runtime::Runtime};
use crate::Limits;

/// Docker's set without `MKNOD` (a device node would be the host's device) and
/// `AUDIT_WRITE` (the host's audit log is not for sandboxes).
const CAPABILITIES: [&str; 12] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// System calls that `runc` refuses: they reach into the host's kernel beyond
/// what the namespaces hold. gVisor needs no such list, its kernel is its own.
const REFUSED: [&str; 25] = [
    // Load code into the kernel, or replace it.
    "bpf",
    "finit_module",
    "init_module",
    "delete_module",
    "kexec_file_load",
    "kexec_load",
    // Opens any file of a file system by number, past every mount.
    "open_by_handle_at",
    // Large, young, and often the way out of a container.
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "perf_event_open",
    "userfaultfd",
    // Keys belong to no namespace.
    "add_key",
    "keyctl",
    "request_key",
    // New namespaces would give capabilities over more of the kernel.
    "setns",
    "unshare",
    "mount",
    "mount_setattr",
    "move_mount",
    "fsopen",
    "open_tree",
    "pivot_root",
    // The host's clock and machine.
    "reboot",
    "syslog",
];

/// Files of `/proc` and `/sys` that tell about the host.
const MASKED: [&str; 9] = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/fs/cgroup",
];

/// Files of `/proc` through which the host could be changed.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The configuration of one sandbox. The first argument is the program's name.
pub(super) fn config(runtime: Runtime, id: &str, arguments: &[String], limits: Limits) -> Value {
    let program = format!("/{PROGRAM}");
    let arguments: Vec<&str> = std::iter::once(program.as_str())
        .chain(arguments.iter().skip(1).map(String::as_str))
        .collect();
    let namespaces = ["pid", "mount", "ipc", "uts", "network"].map(|kind| json!({"type": kind}));
    let mut linux = json!({"namespaces": namespaces});
    match runtime {
        Runtime::Runsc => {}
        Runtime::Runc => {
            linux["cgroupsPath"] = json!(format!("/mayfly/{id}"));
            linux["resources"] = resources(limits);
            linux["maskedPaths"] = json!(MASKED);
            linux["readonlyPaths"] = json!(READ_ONLY);
            linux["seccomp"] = seccomp();
        }
    }
    json!({
        "ociVersion": "1.0.2",
        "hostname": id,
        "root": {"path": "rootfs", "readonly": false},
        "process": {
            "terminal": false,
            "user": {"uid": 0, "gid": 0},
            "cwd": "/",
            "args": arguments,
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "capabilities": {
                "bounding": CAPABILITIES,
                "effective": CAPABILITIES,
                "permitted": CAPABILITIES,
            },
            // `sudo` works inside: the sandbox's root is not trusted anyway.
            "noNewPrivileges": false,
        },
        "mounts": mounts(runtime, limits),
        "linux": linux,
    })
}

fn mounts(runtime: Runtime, limits: Limits) -> Value {
    let shared = format!("size={}m", (limits.memory_mib / 2).max(16));
    let mut mounts = json!([
        {"destination": "/proc", "type": "proc", "source": "proc",
         "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=64k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
         "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
         "options": ["nosuid", "noexec", "nodev", "mode=1777", shared]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs",
         "options": ["nosuid", "noexec", "nodev", "ro"]},
    ]);
    if let (Runtime::Runsc, Some(mounts)) = (runtime, mounts.as_array_mut()) {
        // gVisor shows no path of the host for it; `runc` would.
        mounts.push(json!({"destination": "/proc/meminfo", "type": "bind",
            "source": MEMINFO, "options": ["bind", "ro"]}));
    }
    mounts
}

fn resources(limits: Limits) -> Value {
    json!({
        "memory": {"limit": u64::from(limits.memory_mib) << 20},
        "cpu": {"quota": limits.cpus * 100_000, "period": 100_000},
        "pids": {"limit": limits.processes},
    })
}

fn seccomp() -> Value {
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_AARCH64"],
        "syscalls": [
            {"names": REFUSED, "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
            // Its flags are in memory, where a filter cannot look; programs
            // fall back to `clone`.
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
            // `clone` of a new user namespace.
            {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args": [
                {"index": 0, "value": libc::CLONE_NEWUSER, "valueTwo": libc::CLONE_NEWUSER,
                 "op": "SCMP_CMP_MASKED_EQ"}]},
        ],
    })
}
