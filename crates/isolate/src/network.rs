//! What a sandbox may reach: nothing, or the internet less what was denied.
//!
//! These are wishes. Which ranges no wish can open is in `native::rules`.

use std::{fmt, net::IpAddr, str::FromStr};

use serde::{Deserialize, Serialize};

/// The network of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Its own loopback and nothing else.
    None,
    /// The internet. What is both allowed and denied is allowed.
    Internet {
        /// Reachable whatever is denied.
        allow: Vec<Cidr>,
        /// Not reachable.
        deny: Vec<Cidr>,
    },
}

impl Network {
    /// The internet, without wishes.
    pub const OPEN: Network = Network::Internet { allow: Vec::new(), deny: Vec::new() };
}

/// A range of addresses; one address is a range too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    /// The first address.
    first: IpAddr,
    /// How many of its leading bits all others share.
    prefix: u8,
}

/// The text names no range of addresses.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no address and no range such as 192.0.2.0/24")]
pub struct BadCidr(String);

impl Cidr {
    /// The first and the last address as numbers, if they are of IPv4.
    pub(crate) fn bounds(self) -> Option<(u32, u32)> {
        match self.first {
            IpAddr::V4(first) => {
                let host_bits = u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                Some((first.into(), u32::from(first) | host_bits))
            }
            IpAddr::V6(_) => None,
        }
    }

    /// Whether these are addresses of IPv4.
    pub fn is_ipv4(self) -> bool {
        self.first.is_ipv4()
    }

    /// Whether these are all addresses of IPv4.
    pub fn is_everything(self) -> bool {
        self.is_ipv4() && self.prefix == 0
    }
}

impl FromStr for Cidr {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Cidr, BadCidr> {
        let bad = || BadCidr(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= longest).ok_or_else(bad)?
            }
            Some(_) => return Err(bad()),
        };
        // The bits behind the prefix say nothing, so that equal ranges are equal.
        let first = match address {
            IpAddr::V4(address) => {
                let network = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4((u32::from(address) & network).into())
            }
            IpAddr::V6(address) => {
                let network = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6((u128::from(address) & network).into())
            }
        };
        Ok(Cidr { first, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = if self.is_ipv4() { 32 } else { 128 };
        if self.prefix == longest {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}/{}", self.first, self.prefix)
        }
    }
}

impl TryFrom<String> for Cidr {
    type Error = BadCidr;

    fn try_from(text: String) -> Result<Cidr, BadCidr> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> String {
        cidr.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{Cidr, Network};

    #[test]
    fn ranges_are_read_and_written_in_one_way() {
        let check = |text: &str, same: &str| {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), same);
        };
        check("8.8.8.8", "8.8.8.8");
        check("8.8.8.8/32", "8.8.8.8");
        check("10.1.2.3/8", "10.0.0.0/8");
        check("0.0.0.0/0", "0.0.0.0/0");
        check("2001:db8::1/32", "2001:db8::/32");
        check("::/0", "::/0");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        let bad =
            ["", "/8", "8.8.8.8/", "8.8.8.8/33", "8.8.8.8/-1", "8.8.8/24", "a.test", "::/129"];
        for text in bad.into_iter().chain(["8.8.8.8/+8", " 8.8.8.8", "8.8.8.8/8/8", "*.a.test"]) {
            assert!(text.parse::<Cidr>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn bounds_are_the_first_and_the_last_address() {
        let check = |text: &str, bounds| assert_eq!(text.parse::<Cidr>().unwrap().bounds(), bounds);
        check("0.0.0.0/0", Some((0, u32::MAX)));
        check("0.0.1.0/24", Some((256, 511)));
        check("0.0.0.7", Some((7, 7)));
        check("::1", None);
    }

    #[test]
    fn a_network_is_stored_as_short_json() {
        let check = |network: Network, text: &str| {
            assert_eq!(serde_json::to_string(&network).unwrap(), text);
            assert_eq!(serde_json::from_str::<Network>(text).unwrap(), network);
        };
        check(Network::None, r#""none""#);
        let deny = vec!["0.0.0.0/0".parse().unwrap()];
        let allow = vec!["1.1.1.1".parse().unwrap()];
        let text = r#"{"internet":{"allow":["1.1.1.1"],"deny":["0.0.0.0/0"]}}"#;
        check(Network::Internet { allow, deny }, text);
    }
}
