//! The filters, asked twice: what they decide, by running their instructions
//! here, and what the kernel then does, in a thread or a child under them.

#![expect(unsafe_code, reason = "a refused call can only be made by number")]

mod kernel;
mod machine;
mod programs;

use std::collections::BTreeSet;

use libc::c_long;

use super::{allowed, conditional, program};
use machine::{Verdict, decide};

/// What Docker's default list denies a container without added capabilities,
/// `chroot` and `clone3` excepted, on both architectures.
const DENIED: &[c_long] = &[
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_pivot_root,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_init_module,
    libc::SYS_delete_module,
    libc::SYS_quotactl,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_clock_settime,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_get_mempolicy,
    libc::SYS_kexec_load,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_migrate_pages,
    libc::SYS_unshare,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_kcmp,
    libc::SYS_finit_module,
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_mount_setattr,
    libc::SYS_quotactl_fd,
    libc::SYS_set_mempolicy_home_node,
];

/// The rest of that list, calls only x86-64 has.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[c_long] = &[
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    174, // create_module
    177, // get_kernel_syms
    178, // query_module
    libc::SYS_getpmsg,
    libc::SYS_putpmsg,
    libc::SYS_afs_syscall,
    libc::SYS_tuxcall,
    libc::SYS_security,
    libc::SYS_vserver,
    libc::SYS_modify_ldt,
];
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[c_long] = &[];

fn denied() -> impl Iterator<Item = c_long> {
    DENIED.iter().chain(DENIED_HERE).copied()
}

#[test]
fn what_docker_denies_is_denied_whatever_its_arguments() {
    let program = program().unwrap();
    for call in denied() {
        for argument in [0, 1, u64::MAX] {
            let verdict = decide(&program, machine::NATIVE, call, [argument; 6]);
            assert_eq!(verdict, Verdict::Errno(libc::EPERM), "call {call}");
        }
    }
}

#[test]
fn every_call_stands_on_one_list_only_and_a_free_one_is_allowed() {
    let program = program().unwrap();
    let conditional = conditional::rules().unwrap();
    let mut seen = BTreeSet::new();
    for call in allowed::calls() {
        assert!(seen.insert(call), "call {call} is listed twice");
        assert!(!conditional.contains_key(&call), "call {call} is free and conditional");
        for argument in [0, u64::MAX] {
            let verdict = decide(&program, machine::NATIVE, call, [argument; 6]);
            assert_eq!(verdict, Verdict::Allow, "call {call}");
        }
    }
}

#[test]
fn what_is_newer_than_the_list_is_not_there() {
    let program = program().unwrap();
    let absent = [libc::SYS_clone3, 457, 458, 467, 500, 1023, c_long::from(i32::MAX)];
    for call in absent {
        let verdict = decide(&program, machine::NATIVE, call, [0; 6]);
        assert_eq!(verdict, Verdict::Errno(libc::ENOSYS), "call {call}");
    }
}

#[test]
fn calls_of_the_x32_interface_are_refused() {
    let program = program().unwrap();
    for call in 0..1024 {
        let verdict = decide(&program, machine::NATIVE, 0x4000_0000 | call, [0; 6]);
        assert_eq!(verdict, Verdict::Errno(libc::ENOSYS), "call {call}");
    }
}

#[test]
fn calls_of_another_architecture_kill() {
    let program = program().unwrap();
    for call in 0..1024 {
        let verdict = decide(&program, machine::FOREIGN, call, [0; 6]);
        assert_eq!(verdict, Verdict::Kill, "call {call}");
    }
}

#[test]
fn high_bits_hide_no_argument() {
    let program = program().unwrap();
    let high = 0xdead_beef_0000_0000;
    let namespace = libc::CLONE_NEWUSER as u64;
    let cases = [
        (libc::SYS_ioctl, [0, libc::TIOCSTI, 0], libc::EPERM),
        (libc::SYS_ioctl, [0, libc::TIOCLINUX, 0], libc::EPERM),
        (libc::SYS_ioctl, [0, libc::TIOCSETD, 0], libc::EPERM),
        (libc::SYS_clone, [namespace, 0, 0], libc::EPERM),
        (libc::SYS_socket, [libc::AF_VSOCK as u64, 1, 0], libc::EAFNOSUPPORT),
        (libc::SYS_socket, [libc::AF_INET as u64, libc::SOCK_RAW as u64, 0], libc::EPERM),
    ];
    for (call, [first, second, third], errno) in cases {
        for extra in [0, high] {
            let arguments = [first | extra, second | extra, third | extra, 0, 0, 0];
            let verdict = decide(&program, machine::NATIVE, call, arguments);
            assert_eq!(verdict, Verdict::Errno(errno), "call {call} with {arguments:x?}");
        }
    }
}
