//! Calls made under the filters, in a thread of their own: a filter belongs to
//! the thread that loads it and ends with it.
//!
//! Every call is made so that the kernel itself would refuse it with another
//! error, which proves who answered, and so that nothing happens if it did not.

use std::{io, thread};

use libc::c_long;

use super::super::{load, program};

/// An argument that is no descriptor, no address and no length.
const BAD: i64 = -1;

#[test]
fn denied_calls_are_refused_by_the_kernel() {
    check(super::denied().map(|call| (call, [BAD; 4], libc::EPERM)).collect());
}

#[test]
fn a_missing_call_says_so() {
    check(vec![
        (libc::SYS_clone3, [BAD; 4], libc::ENOSYS),
        (super::super::allowed::STATMOUNT, [BAD; 4], libc::ENOSYS),
        (super::super::allowed::LISTMOUNT, [BAD; 4], libc::ENOSYS),
    ]);
}

#[test]
fn allowed_calls_reach_the_kernel() {
    check(vec![
        (libc::SYS_read, [BAD; 4], libc::EBADF),
        (libc::SYS_openat2, [BAD, 0, 0, 0], libc::EINVAL),
        (libc::SYS_faccessat2, [BAD; 4], libc::EINVAL),
        (452, [BAD; 4], libc::EINVAL), // fchmodat2
        (libc::SYS_close_range, [2, 1, 0, 0], libc::EINVAL),
        (libc::SYS_epoll_pwait2, [BAD, 0, 1, 0], libc::EBADF),
        (libc::SYS_chroot, [BAD; 4], libc::EFAULT),
        (libc::SYS_mknodat, [BAD, BAD, 0, 0], libc::EFAULT),
        (libc::SYS_memfd_create, [BAD, 0, 0, 0], libc::EFAULT),
        (libc::SYS_execve, [BAD; 4], libc::EFAULT),
        (libc::SYS_pidfd_open, [BAD, 0, 0, 0], libc::EINVAL),
        (libc::SYS_process_vm_readv, [BAD, BAD, 1, 0], libc::EFAULT),
        (libc::SYS_ptrace, [libc::PTRACE_CONT as i64, i32::MAX.into(), 0, 0], libc::ESRCH),
        (libc::SYS_landlock_create_ruleset, [0, 0, BAD, 0], libc::EINVAL),
        (libc::SYS_seccomp, [BAD; 4], libc::EINVAL),
        (libc::SYS_rseq, [0, 0, 1024, 0], libc::EINVAL),
        (libc::SYS_mq_unlink, [BAD; 4], libc::EFAULT),
        (libc::SYS_inotify_add_watch, [BAD, BAD, 1, 0], libc::EBADF),
    ]);
}

#[test]
fn only_the_terminal_calls_that_forge_input_are_refused() {
    let [type_in, paste, discipline] = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD]
        .map(|request| i64::try_from(request).unwrap());
    check(vec![
        (libc::SYS_ioctl, [BAD, libc::TIOCGWINSZ as i64, 0, 0], libc::EBADF),
        (libc::SYS_ioctl, [BAD, libc::FIONREAD as i64, 0, 0], libc::EBADF),
        (libc::SYS_ioctl, [BAD, type_in, 0, 0], libc::EPERM),
        (libc::SYS_ioctl, [BAD, type_in | 1 << 32, 0, 0], libc::EPERM),
        (libc::SYS_ioctl, [BAD, paste, 0, 0], libc::EPERM),
        (libc::SYS_ioctl, [BAD, paste | 0xff << 40, 0, 0], libc::EPERM),
        (libc::SYS_ioctl, [BAD, discipline, 0, 0], libc::EPERM),
    ]);
}

#[test]
fn clone_makes_no_namespace() {
    // Sharing signal handlers without sharing memory is always EINVAL.
    let impossible = i64::from(libc::CLONE_SIGHAND);
    let mut cases = vec![(libc::SYS_clone, [impossible, 0, 0, 0], libc::EINVAL)];
    let namespaces = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    cases.extend(namespaces.map(|namespace| {
        (libc::SYS_clone, [impossible | i64::from(namespace), 0, 0, 0], libc::EPERM)
    }));
    check(cases);
}

#[test]
fn sockets_are_local_or_internet_ones() {
    const FINE: i32 = 0;
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let cases = [
        (libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, FINE),
        (libc::AF_INET, libc::SOCK_STREAM, 0, FINE),
        (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP, FINE),
        (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDP, FINE),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE, FINE),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT, libc::EAFNOSUPPORT),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER, libc::EAFNOSUPPORT),
        (libc::AF_PACKET, libc::SOCK_RAW, 0, libc::EAFNOSUPPORT),
        (libc::AF_ALG, libc::SOCK_SEQPACKET, 0, libc::EAFNOSUPPORT),
        (libc::AF_VSOCK, libc::SOCK_STREAM, 0, libc::EAFNOSUPPORT),
        (libc::AF_BLUETOOTH, libc::SOCK_RAW, 0, libc::EAFNOSUPPORT),
        (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP, libc::EPERM),
        (libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_TCP, libc::EPERM),
        (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP, libc::EPERM),
        (libc::AF_INET, libc::SOCK_DGRAM, 115, libc::EPERM),
    ];
    check(
        cases
            .map(|(family, kind, protocol, expected)| {
                let arguments = [family, kind | flags, protocol, 0].map(i64::from);
                (libc::SYS_socket, arguments, expected)
            })
            .into(),
    );
}

#[test]
fn personalities_are_those_of_docker() {
    check(vec![
        (libc::SYS_personality, [0xffff_ffff, 0, 0, 0], 0),
        (libc::SYS_personality, [libc::ADDR_NO_RANDOMIZE.into(), 0, 0, 0], libc::EPERM),
        (libc::SYS_personality, [libc::READ_IMPLIES_EXEC.into(), 0, 0, 0], libc::EPERM),
    ]);
}

/// Makes each call under the filters and compares its error; 0 is success.
fn check(cases: Vec<(c_long, [i64; 4], i32)>) {
    let program = program().unwrap();
    let judge = thread::spawn(move || {
        if let Err(err) = load(&program) {
            assert_eq!(err.raw_os_error(), Some(libc::EACCES));
            println!("skipped: loading a filter without no_new_privs needs CAP_SYS_ADMIN");
            return;
        }
        assert!(!rustix::thread::no_new_privs().unwrap());
        for (call, arguments, expected) in cases {
            assert_eq!(errno(call, arguments), expected, "call {call} with {arguments:x?}");
        }
    });
    judge.join().unwrap();
}

fn errno(call: c_long, [first, second, third, fourth]: [i64; 4]) -> i32 {
    // SAFETY: the tables above hold only calls that fail, ask, or open a
    // descriptor, and no argument of theirs is the address of anything.
    let result = unsafe { libc::syscall(call, first, second, third, fourth, 0_i64, 0_i64) };
    if result < 0 { io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}
