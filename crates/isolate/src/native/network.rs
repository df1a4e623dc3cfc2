//! The keeper's half of a sandbox's network: it lays the link, loads the rules
//! and takes both away.
//!
//! ```text
//! none ── rules, then link ──► internet ── rules of one chain ──► internet
//!   ◄──────────── link removed ───────────────┘
//! ```
//!
//! The rules are there before the link is, so there is no moment without them.
//! All of it happens in a child: it enters the sandbox's network namespace by
//! the descriptor of its init, and no path of the sandbox is ever looked at.

use std::{
    fs,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid},
    thread::{ThreadNameSpaceType, move_into_thread_name_spaces},
};

use super::{
    clone::{self, Split},
    link::{self, Link},
    netlink::Netlink,
    rules,
    spec::{Defence, Spec},
};
use crate::Network;

/// The sandbox's end of the link.
const INSIDE: &str = "eth0";
/// How long laying the link may take. While it does, nobody else is heard.
const PATIENCE: Duration = Duration::from_secs(10);

/// The network of one sandbox.
pub(super) struct Way {
    laid: bool,
}

impl Way {
    /// Every sandbox begins without.
    pub(super) const NONE: Way = Way { laid: false };

    /// Makes the network what was asked for, or says why not. On error a link
    /// that was not there before is not there.
    pub(super) fn set(&mut self, spec: &Spec, init: &OwnedFd, network: &Network) -> io::Result<()> {
        let Some(link) = spec.link.as_ref().filter(|_| spec.has(Defence::OwnNetwork)) else {
            return Err(io::Error::other("this sandbox was made without a way out"));
        };
        match network {
            Network::None => self.remove(spec),
            Network::Internet { allow, deny } if self.laid => {
                inside(init, |_| filter(spec, link, &rules::wishes(allow, deny)))
            }
            Network::Internet { allow, deny } => {
                self.laid = true;
                let laid = inside(init, |host| {
                    filter(spec, link, &rules::inside(link, allow, deny))?;
                    lay(host, link)
                });
                let laid = laid.and_then(|()| carry_no_ipv6(&link.interface));
                if laid.is_err() {
                    // The first failure is the one to tell.
                    let _ = self.remove(spec);
                }
                laid
            }
        }
    }

    /// Takes the link away. It would go with the sandbox's last process, but
    /// some time after.
    pub(super) fn remove(&mut self, spec: &Spec) -> io::Result<()> {
        if let (true, Some(link)) = (self.laid, &spec.link) {
            remove(link)?;
            self.laid = false;
        }
        Ok(())
    }
}

/// Removes a sandbox's link from the host, if it is there.
pub(super) fn remove(link: &Link) -> io::Result<()> {
    Netlink::open()?.remove(&link.interface)
}

fn filter(spec: &Spec, link: &Link, rules: &str) -> io::Result<()> {
    if spec.has(Defence::EgressRules) { link::load(&link.nft, rules) } else { Ok(()) }
}

/// Lays the link between the host and the namespace this process is in now.
fn lay(host: &Netlink, link: &Link) -> io::Result<()> {
    // Taken over by the link when it is made.
    carry_no_ipv6("default")?;
    host.add_pair(&link.interface, INSIDE, std::process::id())?;
    host.add_address(&link.interface, link.outside)?;
    host.bring_up(&link.interface)?;
    let guest = Netlink::open()?;
    guest.add_address(INSIDE, link.inside())?;
    guest.bring_up(INSIDE)?;
    guest.add_default_route(link.outside)
}

/// Switches IPv6 off for one interface of this network namespace, where the
/// kernel knows it at all.
fn carry_no_ipv6(interface: &str) -> io::Result<()> {
    match fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1") {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

/// Does `work` in the network namespace of init, with a way to speak to the
/// host's, in a process of its own.
fn inside(init: &OwnedFd, work: impl FnOnce(&Netlink) -> io::Result<()>) -> io::Result<()> {
    let (heard, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (pid, child) = match clone::clone(0)? {
        Split::Child => {
            let worked = Netlink::open().and_then(|host| {
                move_into_thread_name_spaces(init.as_fd(), ThreadNameSpaceType::NETWORK)?;
                work(&host)
            });
            let words = worked.err().map(|err| err.to_string()).unwrap_or_default();
            // With nobody to read it, nothing more can be said.
            let _ = fs::File::from(told).write_all(words.as_bytes());
            clone::leave(0)
        }
        Split::Parent(pid, child) => (pid, child),
    };
    drop(told);
    let in_time = wait(&child);
    if !in_time {
        pidfd_send_signal(&child, Signal::KILL)?;
    }
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)?;
    if !in_time {
        return Err(io::Error::other("the rules took too long to load"));
    }
    let mut words = String::new();
    fs::File::from(heard).take(1024).read_to_string(&mut words)?;
    if words.is_empty() { Ok(()) } else { Err(io::Error::other(words)) }
}

/// Whether the child ended in time.
fn wait(child: &OwnedFd) -> bool {
    let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let mut wanted = [PollFd::new(child, PollFlags::IN)];
    matches!(poll(&mut wanted, Some(&timeout)), Ok(1..))
}
