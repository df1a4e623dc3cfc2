//! The system calls that are allowed with some arguments and not with others.
//!
//! Every argument looked at here is 32 bits wide to the kernel, so only the
//! low half of the register is compared: a program may leave anything in the
//! high half, and must not get past a rule with it.

use libc::c_int;
use seccompiler::{
    BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition as Condition, SeccompRule,
};

use super::Rules;

/// The families of sockets a sandbox has.
const FAMILIES: [c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The part of a socket's type that is not a flag (`SOCK_TYPE_MASK`).
const SOCKET_TYPE: u64 = 0xf;

/// Every flag with which `clone` makes a namespace. `CLONE_NEWTIME` is not among
/// them: `clone` reads its bit as part of the exit signal.
const NAMESPACES: c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// What the allow-list allows under a condition.
pub(super) fn rules() -> Result<Rules, BackendError> {
    Ok(Rules::from([
        (libc::SYS_clone, clone()?),
        (libc::SYS_ioctl, ioctl()?),
        (libc::SYS_personality, personality()?),
        (libc::SYS_socket, socket()?),
        (libc::SYS_socketpair, vec![SeccompRule::new(vec![is(0, libc::AF_UNIX)?])?]),
    ]))
}

/// The sockets that are refused as if the kernel had been built without them.
///
/// The error matters: libaudit, and with it useradd, su and sshd, goes on
/// without auditing when the family is missing and gives up on EPERM.
pub(super) fn absent_families() -> Result<Rules, BackendError> {
    let other_family: Result<_, _> = FAMILIES.map(|family| is_not(0, family)).into_iter().collect();
    let other_netlink = vec![is(0, libc::AF_NETLINK)?, is_not(2, libc::NETLINK_ROUTE)?];
    let socket = vec![SeccompRule::new(other_family?)?, SeccompRule::new(other_netlink)?];
    let pair = vec![SeccompRule::new(vec![is_not(0, libc::AF_UNIX)?])?];
    Ok(Rules::from([(libc::SYS_socket, socket), (libc::SYS_socketpair, pair)]))
}

/// fork and threads: glibc, musl, Go. A nested user namespace would open the
/// parts of the kernel whose bugs CVE-2022-0185, CVE-2022-0492 and
/// CVE-2024-1086 were.
fn clone() -> Result<Vec<SeccompRule>, BackendError> {
    Ok(vec![SeccompRule::new(vec![masked(0, NAMESPACES as u64, 0)?])?])
}

/// Every program with a terminal, a socket or a device.
fn ioctl() -> Result<Vec<SeccompRule>, BackendError> {
    let refused = [
        // Types into the terminal, also of whoever looks at it (CVE-2017-5226).
        libc::TIOCSTI,
        // Pastes into it, on a virtual console.
        libc::TIOCLINUX,
        // Loads line disciplines, a row of kernel bugs (CVE-2017-2636,
        // CVE-2023-6546) that only serial modems have a use for.
        libc::TIOCSETD,
    ];
    let others: Result<_, _> =
        refused.map(|request| is_not(1, request as c_int)).into_iter().collect();
    Ok(vec![SeccompRule::new(others?)?])
}

/// `setarch`, `linux32`, dpkg's build tools: Docker's values.
fn personality() -> Result<Vec<SeccompRule>, BackendError> {
    const LINUX: c_int = 0;
    const LINUX32: c_int = 8;
    const ASK: c_int = -1;
    let domains = [LINUX, LINUX32, LINUX | libc::UNAME26, LINUX32 | libc::UNAME26, ASK];
    domains.into_iter().map(|domain| SeccompRule::new(vec![is(0, domain)?])).collect()
}

/// The sockets of ordinary programs.
///
/// Raw sockets are refused, whoever the network namespace belongs to, and so
/// are protocols whose modules the kernel would load for anybody who asks
/// (SCTP, DCCP, L2TP).
fn socket() -> Result<Vec<SeccompRule>, BackendError> {
    let internet = [
        (libc::SOCK_STREAM, 0),
        (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (libc::SOCK_STREAM, libc::IPPROTO_MPTCP), // Go's listeners
        (libc::SOCK_DGRAM, 0),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
        (libc::SOCK_DGRAM, libc::IPPROTO_ICMP), // ping, by ping_group_range
        (libc::SOCK_DGRAM, libc::IPPROTO_ICMPV6),
    ];
    let mut rules = vec![
        SeccompRule::new(vec![is(0, libc::AF_UNIX)?])?,
        // getaddrinfo, `ip`, Node's os.networkInterfaces. The other protocols
        // reach netfilter and the like.
        SeccompRule::new(vec![is(0, libc::AF_NETLINK)?, is(2, libc::NETLINK_ROUTE)?])?,
    ];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (kind, protocol) in internet {
            rules.push(SeccompRule::new(vec![
                is(0, family)?,
                masked(1, SOCKET_TYPE, kind)?,
                is(2, protocol)?,
            ])?);
        }
    }
    Ok(rules)
}

fn is(argument: u8, value: c_int) -> Result<Condition, BackendError> {
    compare(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: c_int) -> Result<Condition, BackendError> {
    compare(argument, SeccompCmpOp::Ne, value)
}

fn masked(argument: u8, mask: u64, value: c_int) -> Result<Condition, BackendError> {
    compare(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn compare(argument: u8, operator: SeccompCmpOp, value: c_int) -> Result<Condition, BackendError> {
    Condition::new(argument, SeccompCmpArgLen::Dword, operator, u64::from(value.cast_unsigned()))
}
