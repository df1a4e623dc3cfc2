//! The system calls that are free, by what they are for.
//!
//! A call stands here because a program needs it, and each group says which.
//! `chroot` is in, as in Docker with `CAP_SYS_CHROOT`. Of Docker's list these
//! are left out: `modify_ldt` (for 16-bit code only, and a source of kernel
//! bugs), `fanotify_mark` (useless without `fanotify_init`), `uretprobe` (the
//! kernel lets its own calls through), `io_pgetevents` (without a caller),
//! `epoll_ctl_old` and `epoll_wait_old` (never implemented), `statmount` and
//! `listmount` (answered in `calls`).

use libc::c_long;

/// The last call this list has an opinion on, `removexattrat` of Linux 6.13.
pub(super) const NEWEST: c_long = 466;

// The C bindings do not name these yet. From 424 on, a call has the same
// number on every architecture.
const CACHESTAT: c_long = 451;
const FCHMODAT2: c_long = 452;
const MAP_SHADOW_STACK: c_long = 453;
const FUTEX_WAKE: c_long = 454;
const FUTEX_WAIT: c_long = 455;
const FUTEX_REQUEUE: c_long = 456;
pub(super) const STATMOUNT: c_long = 457;
pub(super) const LISTMOUNT: c_long = 458;
const SETXATTRAT: c_long = 463;
const GETXATTRAT: c_long = 464;
const LISTXATTRAT: c_long = 465;
const REMOVEXATTRAT: c_long = 466;

/// Every call that is allowed whatever its arguments are.
pub(super) fn calls() -> impl Iterator<Item = c_long> {
    [
        DATA,
        PATHS,
        ATTRIBUTES,
        WAITING,
        MEMORY,
        PROCESSES,
        DEBUGGING,
        IDENTITY,
        SCHEDULING,
        SIGNALS,
        TIME,
        SOCKETS,
        MESSAGES,
        THREADS,
        SELF_RESTRAINT,
        NEWER,
        ARCHITECTURE,
    ]
    .into_iter()
    .flatten()
    .copied()
}

macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// Open files: every program. `splice`, `tee` and `vmsplice`: Go's and Rust's
/// copies, nginx. `io_*`: databases and fio (the old interface; `io_uring` is
/// out for the size of its surface).
const DATA: &[c_long] = calls! {
    SYS_read SYS_readv SYS_pread64 SYS_preadv SYS_preadv2
    SYS_write SYS_writev SYS_pwrite64 SYS_pwritev SYS_pwritev2
    SYS_openat SYS_openat2 SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_pipe2
    SYS_lseek SYS_fcntl SYS_flock SYS_ftruncate SYS_fallocate SYS_fadvise64 SYS_readahead
    SYS_fsync SYS_fdatasync SYS_sync SYS_syncfs
    SYS_copy_file_range SYS_sendfile SYS_splice SYS_tee SYS_vmsplice
    SYS_io_setup SYS_io_submit SYS_io_getevents SYS_io_cancel SYS_io_destroy
};

/// Names in the file system: every program. `chroot`: apt, debootstrap, sshd;
/// it leads nowhere but into the sandbox's own tree. `mknodat`: mkfifo; a
/// device cannot be made from a user namespace. `name_to_handle_at`: systemd's
/// libraries; `open_by_handle_at`, its dangerous half, is out.
const PATHS: &[c_long] = calls! {
    SYS_newfstatat SYS_fstat SYS_statx SYS_statfs SYS_fstatfs SYS_faccessat SYS_faccessat2
    SYS_getdents64 SYS_readlinkat SYS_name_to_handle_at
    SYS_getcwd SYS_chdir SYS_fchdir SYS_chroot SYS_umask
    SYS_mkdirat SYS_mknodat SYS_linkat SYS_symlinkat SYS_unlinkat SYS_renameat2 SYS_truncate
    SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_utimensat
};

/// Extended attributes: `cp -a`, tar, rsync, setcap in package scripts.
const ATTRIBUTES: &[c_long] = calls! {
    SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_setxattr SYS_lsetxattr SYS_fsetxattr
    SYS_listxattr SYS_llistxattr SYS_flistxattr
    SYS_removexattr SYS_lremovexattr SYS_fremovexattr
};

/// Waiting for something to happen: every event loop, envd's among them.
/// `inotify_*`: envd's directory watch, `tail -f`, bundlers.
const WAITING: &[c_long] = calls! {
    SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
    SYS_eventfd2 SYS_signalfd4 SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime
    SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
};

/// Memory: every allocator and loader. `memfd_*`: browsers, systemd's
/// libraries. `pkey_*`: V8's code space. `mlock*`: gnupg. `remap_file_pages`:
/// old databases. What moves memory between NUMA nodes is out, as in Docker.
const MEMORY: &[c_long] = calls! {
    SYS_brk SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_msync SYS_mincore
    SYS_mlock SYS_mlock2 SYS_mlockall SYS_munlock SYS_munlockall SYS_remap_file_pages
    SYS_memfd_create SYS_memfd_secret SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect
};

/// Starting and ending processes: shells, and every program that runs another.
/// `pidfd_*`: Go, Python's subprocess, systemd's libraries; `pidfd_getfd`,
/// which takes a descriptor out of another process, is out. `acct` and
/// `kcmp` are out, as in Docker.
const PROCESSES: &[c_long] = calls! {
    SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid
    SYS_getpid SYS_getppid SYS_gettid SYS_getpgid SYS_setpgid SYS_getsid SYS_setsid
    SYS_pidfd_open SYS_pidfd_send_signal SYS_process_mrelease
    SYS_getrusage SYS_prlimit64 SYS_uname SYS_sysinfo SYS_getrandom SYS_prctl
};

/// Looking into another process: gdb, strace, py-spy, Go's and Rust's
/// sanitizers. Since Linux 4.8 a filter is applied after a tracer has changed
/// the call, so tracing is no way around it, and a tracer reaches only
/// processes of its own sandbox. `process_vm_*` passes the same check and
/// gives nothing `ptrace` does not, so the three stand or fall together.
const DEBUGGING: &[c_long] = calls! {
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev
};

/// Users, groups and capabilities: sudo, su, apt (drops to `_apt`), sshd. The
/// user namespace decides what an id is worth.
const IDENTITY: &[c_long] = calls! {
    SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups
    SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setgroups
    SYS_setfsuid SYS_setfsgid SYS_capget SYS_capset
};

/// Priorities and processors: nproc, nice, ionice, Go's and Java's start.
const SCHEDULING: &[c_long] = calls! {
    SYS_sched_yield SYS_getcpu SYS_sched_getaffinity SYS_sched_setaffinity
    SYS_sched_getattr SYS_sched_setattr SYS_sched_getparam SYS_sched_setparam
    SYS_sched_getscheduler SYS_sched_setscheduler SYS_sched_rr_get_interval
    SYS_sched_get_priority_max SYS_sched_get_priority_min
    SYS_getpriority SYS_setpriority SYS_ioprio_get SYS_ioprio_set
};

/// Signals: every program. `restart_syscall` is made by the kernel itself
/// after a stopped sleep goes on.
const SIGNALS: &[c_long] = calls! {
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigsuspend
    SYS_rt_sigtimedwait SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sigaltstack
    SYS_kill SYS_tkill SYS_tgkill SYS_restart_syscall
};

/// Clocks and timers: every program. The `adjtime` pair also reads, which is
/// what chrony and `timedatectl` do; to set takes a capability of the host.
const TIME: &[c_long] = calls! {
    SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_gettimeofday SYS_nanosleep
    SYS_times SYS_getitimer SYS_setitimer SYS_timer_create SYS_timer_settime SYS_timer_gettime
    SYS_timer_getoverrun SYS_timer_delete SYS_adjtimex SYS_clock_adjtime
};

/// Sockets once they are there: every client and server. Which sockets may be
/// made is in `conditional`.
const SOCKETS: &[c_long] = calls! {
    SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_connect SYS_shutdown
    SYS_sendto SYS_sendmsg SYS_sendmmsg SYS_recvfrom SYS_recvmsg SYS_recvmmsg
    SYS_getsockname SYS_getpeername SYS_getsockopt SYS_setsockopt
};

/// System V and POSIX queues, semaphores, shared memory: PostgreSQL, fakeroot,
/// Python's multiprocessing. The IPC namespace keeps them inside.
const MESSAGES: &[c_long] = calls! {
    SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semctl SYS_semtimedop
    SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl
    SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify
    SYS_mq_getsetattr
};

/// Threads: glibc and musl at every start. `membarrier`: .NET, liburcu.
/// `futex_waitv`: Wine.
const THREADS: &[c_long] = calls! {
    SYS_futex SYS_futex_waitv SYS_set_robust_list SYS_get_robust_list SYS_set_tid_address
    SYS_rseq SYS_membarrier
};

/// Walls inside the walls: Chromium, sshd, harness CLIs that sandbox their own
/// tools. Both can only take rights away.
const SELF_RESTRAINT: &[c_long] = calls! {
    SYS_seccomp SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
};

/// Calls younger than most of Docker's list, with who makes them.
const NEWER: &[c_long] = &[
    FCHMODAT2,        // glibc 2.39: `fchmodat` without following links
    MAP_SHADOW_STACK, // glibc 2.40: threads with shadow stacks
    FUTEX_WAKE,       // glibc and Wine are moving to the split futex calls
    FUTEX_WAIT,
    FUTEX_REQUEUE,
    libc::SYS_mseal, // Chromium, glibc's loader: makes a mapping unchangeable
    CACHESTAT,       // databases: what of a file is in memory; own files only
    SETXATTRAT,      // coreutils and tar: extended attributes by descriptor
    GETXATTRAT,
    LISTXATTRAT,
    REMOVEXATTRAT,
];

/// The calls of x86-64 that younger architectures dropped: glibc, Go, Python
/// and shells still make most of them here. `arch_prctl`: every loader.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &[c_long] = calls! {
    SYS_arch_prctl SYS_get_thread_area SYS_set_thread_area
    SYS_open SYS_creat SYS_dup2 SYS_pipe SYS_poll SYS_select SYS_sync_file_range
    SYS_stat SYS_lstat SYS_access SYS_readlink SYS_getdents SYS_mkdir SYS_rmdir SYS_mknod
    SYS_link SYS_symlink SYS_unlink SYS_rename SYS_renameat SYS_chmod SYS_chown SYS_lchown
    SYS_utime SYS_utimes SYS_futimesat
    SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_signalfd SYS_inotify_init
    SYS_fork SYS_vfork SYS_getpgrp SYS_getrlimit SYS_setrlimit SYS_alarm SYS_pause SYS_time
};

/// The calls the C bindings leave out of this architecture.
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &[c_long] = &[
    38,  // renameat: glibc's and Go's rename
    84,  // sync_file_range: databases
    163, // getrlimit: Go
    164, // setrlimit: Go
];
