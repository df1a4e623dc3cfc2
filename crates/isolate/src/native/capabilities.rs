//! What the sandbox's root may do.
//!
//! A capability here counts only against things that belong to the sandbox's
//! own user namespace: its files, its processes. The network namespace belongs
//! to the host's, so no capability of a sandbox counts in it.

use std::io;

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

/// What is kept. Docker's fourteen without `AUDIT_WRITE` (the kernel takes
/// audit records from the host's user namespace only) and `MKNOD` (no user
/// namespace but the host's may make devices, and pipes need no capability).
const KEPT: CapabilitySet = CapabilitySet::empty()
    // Package managers and tar give files their owners, modes and set-id bits.
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    // Root reads and writes every file of the sandbox; envd serves files so.
    .union(CapabilitySet::DAC_OVERRIDE)
    // envd and `sudo kill` signal processes of other users.
    .union(CapabilitySet::KILL)
    // envd starts commands as their user; sudo, su, apt and sshd switch, too.
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    // setpriv and capsh take capabilities away from what they start.
    .union(CapabilitySet::SETPCAP)
    // Package scripts run setcap.
    .union(CapabilitySet::SETFCAP)
    // debootstrap, apt and sshd change their root directory.
    .union(CapabilitySet::SYS_CHROOT)
    // These two open nothing. They are kept because the kernel refuses to
    // start a program whose file asks for a capability outside the bounding
    // set: Caddy's for low ports, ping's of Debian 12 and Ubuntu for raw
    // sockets. Low ports are free by `ip_unprivileged_port_start`, ping works
    // by `ping_group_range`, and `seccomp` refuses raw sockets by themselves.
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_RAW);

/// Drops everything that is not kept from all five sets of the calling thread.
///
/// Called as user 0 of the sandbox's user namespace, last before exec and after
/// `seccomp::load`, which needs more. What is executed as user 0 gets the
/// bounding set, any other user gets nothing. Allocates nothing, and so may be
/// called between fork and exec.
pub(crate) fn restrict() -> io::Result<()> {
    clear_ambient_capability_set()?;
    // Needs SETPCAP, so it comes before the effective set is cut down.
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !KEPT.contains(capability) => {
                remove_capability_from_bounding_set(capability)?;
            }
            Ok(_) => {}
            // The kernel knows no capability of this number and none above.
            Err(Errno::INVAL) => break,
            Err(err) => return Err(err.into()),
        }
    }
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: KEPT, permitted: KEPT, inheritable })?;
    Ok(())
}
