//! Which addresses a run's upstreams may have.
//!
//! A caller names the addresses, so without a rule anybody with an API key
//! could make the server call what only the server reaches. By default the
//! ranges where clouds hand out credentials are closed, and loopback and
//! private ranges are open, because callers usually run beside us. An operator
//! who lists ranges opens those and nothing else.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A range of addresses, written as CIDR: `10.0.0.0/8`, `fd00::/8`, `192.0.2.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    network: IpAddr,
    prefix: u32,
}

/// The text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a range of addresses such as 10.0.0.0/8 or fd00::/8")]
pub struct BadRange(String);

/// Which addresses may be dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressPolicy {
    /// All but link-local ranges, metadata services and multicast.
    Standard,
    /// These ranges and no others.
    Only(Vec<AddressRange>),
    /// All: for what the operator names, and nobody else.
    Any,
}

/// What the standard policy closes: link-local ranges with the clouds' metadata
/// services in them, the one metadata service that has an address of its own,
/// multicast and broadcast.
const CLOSED: [AddressRange; 6] = [
    AddressRange { network: IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), prefix: 16 },
    AddressRange { network: IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), prefix: 4 },
    AddressRange { network: IpAddr::V4(Ipv4Addr::BROADCAST), prefix: 32 },
    AddressRange { network: IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), prefix: 10 },
    AddressRange { network: IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), prefix: 8 },
    AddressRange {
        network: IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254)),
        prefix: 128,
    },
];

impl AddressPolicy {
    /// The operator's list; an empty one is the standard policy.
    pub fn new(ranges: Vec<AddressRange>) -> AddressPolicy {
        if ranges.is_empty() { AddressPolicy::Standard } else { AddressPolicy::Only(ranges) }
    }

    /// Whether `address` may be dialled.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = plain(address);
        match self {
            AddressPolicy::Standard => !CLOSED.iter().any(|range| range.contains(address)),
            AddressPolicy::Only(ranges) => ranges.iter().any(|range| range.contains(address)),
            AddressPolicy::Any => true,
        }
    }
}

impl AddressRange {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let [network, address] = [network, address].map(|each| each.to_bits().into());
                same_start(network, address, 32 - self.prefix)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_start(network.to_bits(), address.to_bits(), 128 - self.prefix)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<AddressRange, BadRange> {
        let bad = || BadRange(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr = address.trim().parse().map_err(|_| bad())?;
        let width = if network.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.trim().parse().map_err(|_| bad())?,
            None => width,
        };
        if prefix > width {
            return Err(bad());
        }
        Ok(AddressRange { network, prefix })
    }
}

fn same_start(one: u128, other: u128, free_bits: u32) -> bool {
    let difference = one ^ other;
    // Shifting by the whole width is not defined; with no bit fixed all match.
    difference.checked_shr(free_bits).unwrap_or(0) == 0
}

/// The address that a packet really goes to: IPv4 addresses have several
/// spellings in IPv6, and a rule for the one has to hold for the others.
fn plain(address: IpAddr) -> IpAddr {
    const NAT64: AddressRange = AddressRange {
        network: IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0)),
        prefix: 96,
    };
    match address.to_canonical() {
        IpAddr::V6(six) if NAT64.contains(IpAddr::V6(six)) => {
            let [.., a, b, c, d] = six.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        other @ (IpAddr::V4(_) | IpAddr::V6(_)) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressPolicy, AddressRange};

    #[track_caller]
    fn check(policy: &AddressPolicy, address: &str, allowed: bool) {
        assert_eq!(policy.allows(address.parse().unwrap()), allowed, "{address} under {policy:?}");
    }

    #[test]
    fn metadata_and_multicast_are_closed_by_default_in_every_spelling() {
        for closed in [
            "169.254.169.254",
            "169.254.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "ff02::1",
        ] {
            check(&AddressPolicy::Standard, closed, false);
        }
        for open in ["127.0.0.1", "::1", "10.0.0.1", "192.168.0.1", "1.1.1.1", "fd00::1"] {
            check(&AddressPolicy::Standard, open, true);
        }
    }

    #[test]
    fn a_list_opens_what_it_names_and_nothing_else() {
        let ranges = ["10.1.0.0/16", "2001:db8::/32", "192.0.2.7"];
        let ranges = ranges.map(|range| range.parse().unwrap());
        let policy = AddressPolicy::new(ranges.to_vec());
        for open in ["10.1.255.1", "::ffff:10.1.0.1", "2001:db8::1", "192.0.2.7"] {
            check(&policy, open, true);
        }
        for closed in ["10.2.0.1", "127.0.0.1", "::1", "2001:db9::1", "192.0.2.8"] {
            check(&policy, closed, false);
        }
        let all: AddressRange = "0.0.0.0/0".parse().unwrap();
        check(&AddressPolicy::Only(vec![all]), "169.254.169.254", true);
        check(&AddressPolicy::Only(vec![all]), "::1", false);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for bad in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "example.com", "10.0.0.0/-1", "/8"] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
        }
    }
}
