//! Links, addresses and routes, by route netlink (rtnetlink(7)).
//!
//! Six messages, written here: the crates for it bring an asynchronous runtime
//! or a model of every message there is, into a program that waits a hundredfold
//! on one host and uses this once.

use std::{io, net::Ipv4Addr, os::fd::OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, netdevice,
    netlink::SocketAddrNetlink, recv, send, socket_with,
};

/// Attributes that libc does not know on every system.
const VETH_INFO_PEER: u16 = 1;
/// Room for an acknowledgement, which repeats what it answers.
const ANSWER: usize = 4096;

/// A conversation with the network namespace it was opened in, wherever its
/// thread goes afterwards.
pub(super) struct Netlink(OwnedFd);

impl Netlink {
    /// Speaks to the network namespace of this thread.
    pub(super) fn open() -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC;
        // The protocol without a number is the one for routes.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Netlink(socket))
    }

    /// Makes a pair of links: `name` here, `peer` in the network namespace of the
    /// process `pid`. Neither is up.
    pub(super) fn add_pair(&self, name: &str, peer: &str, pid: u32) -> io::Result<()> {
        let mut other = link_header(0);
        attribute(&mut other, libc::IFLA_IFNAME, &terminated(peer));
        attribute(&mut other, libc::IFLA_NET_NS_PID, &pid.to_ne_bytes());
        let mut data = Vec::new();
        attribute(&mut data, VETH_INFO_PEER, &other);
        let mut info = Vec::new();
        attribute(&mut info, libc::IFLA_INFO_KIND, b"veth");
        attribute(&mut info, libc::IFLA_INFO_DATA, &data);
        let mut message = link_header(0);
        attribute(&mut message, libc::IFLA_IFNAME, &terminated(name));
        attribute(&mut message, libc::IFLA_LINKINFO, &info);
        self.ask(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &message)
    }

    /// Switches a link on.
    pub(super) fn bring_up(&self, name: &str) -> io::Result<()> {
        let mut message = link_header(libc::IFF_UP as u32);
        attribute(&mut message, libc::IFLA_IFNAME, &terminated(name));
        self.ask(libc::RTM_NEWLINK, 0, &message)
    }

    /// Removes a link, and its peer with it. One that is not there is no error.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        let mut message = link_header(0);
        attribute(&mut message, libc::IFLA_IFNAME, &terminated(name));
        match self.ask(libc::RTM_DELLINK, 0, &message) {
            Err(err) if err.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            removed => removed,
        }
    }

    /// Gives a link an address whose only neighbour is the one beside it.
    pub(super) fn add_address(&self, name: &str, address: Ipv4Addr) -> io::Result<()> {
        let index = netdevice::name_to_index(&self.0, name)?;
        let prefix = 31;
        let mut message = vec![libc::AF_INET as u8, prefix, 0, libc::RT_SCOPE_UNIVERSE];
        message.extend(index.to_ne_bytes());
        attribute(&mut message, libc::IFA_LOCAL, &address.octets());
        attribute(&mut message, libc::IFA_ADDRESS, &address.octets());
        self.ask(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &message)
    }

    /// Sends all that has no other way through this gateway.
    pub(super) fn add_default_route(&self, gateway: Ipv4Addr) -> io::Result<()> {
        let (destination, source, service) = (0, 0, 0);
        let mut message = vec![
            libc::AF_INET as u8,
            destination,
            source,
            service,
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNICAST,
        ];
        message.extend(0u32.to_ne_bytes());
        attribute(&mut message, libc::RTA_GATEWAY, &gateway.octets());
        self.ask(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &message)
    }

    /// Sends one request and waits for its acknowledgement.
    fn ask(&self, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
        const HEADER: usize = size_of::<libc::nlmsghdr>();
        let length = (HEADER + body.len()) as u32;
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let (sequence, port) = (0u32, 0u32);
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(sequence.to_ne_bytes());
        message.extend(port.to_ne_bytes());
        message.extend(body);
        send(&self.0, &message, SendFlags::empty())?;
        let mut answer = [0; ANSWER];
        let (_, length) = recv(&self.0, &mut answer[..], RecvFlags::empty())?;
        let answer = answer.get(..length).unwrap_or_default();
        let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        let code = answer.get(HEADER..HEADER + 4).and_then(|bytes| bytes.try_into().ok());
        match (kind, code.map(i32::from_ne_bytes)) {
            (Some(kind), Some(0)) if kind == libc::NLMSG_ERROR as u16 => Ok(()),
            (Some(kind), Some(code)) if kind == libc::NLMSG_ERROR as u16 => {
                Err(io::Error::from_raw_os_error(-code))
            }
            (_, _) => Err(io::Error::other("the kernel answered something else")),
        }
    }
}

/// The start of every message about a link: an `ifinfomsg`.
fn link_header(flags: u32) -> Vec<u8> {
    let (family, kind, index) = (libc::AF_UNSPEC as u16, 0u16, 0u32);
    let mut header = Vec::new();
    header.extend(family.to_ne_bytes());
    header.extend(kind.to_ne_bytes());
    header.extend(index.to_ne_bytes());
    header.extend(flags.to_ne_bytes());
    // Which of the flags count.
    header.extend(flags.to_ne_bytes());
    header
}

/// Appends an attribute, padded to four bytes.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (4 + value.len()) as u16;
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}

#[cfg(test)]
mod tests {
    use super::attribute;

    #[test]
    fn attributes_carry_their_length_and_are_padded() {
        let mut message = Vec::new();
        attribute(&mut message, 3, b"lo\0");
        attribute(&mut message, 1, &[7; 4]);
        let kinds = [3u16.to_ne_bytes(), 1u16.to_ne_bytes()];
        let lengths = [7u16.to_ne_bytes(), 8u16.to_ne_bytes()];
        let first = [&lengths[0][..], &kinds[0], b"lo\0\0"].concat();
        let second = [&lengths[1][..], &kinds[1], &[7; 4]].concat();
        assert_eq!(message, [first, second].concat());
    }
}
