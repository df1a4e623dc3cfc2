//! Where a sandbox's link lies: its name and addresses on the host, which of
//! them belong to which server, and how the server prepares the host.
//!
//! ```text
//! 198.18.0.0/15          all sandboxes of this host
//!   /18 by the server    one of eight, by its directory
//!     /31 by the range   the host's end, and the sandbox's behind it
//! ```

use std::{
    fs, io,
    io::Write,
    net::Ipv4Addr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use super::rules;
use crate::{Cidr, Error, places::root_program};

/// Addresses of all sandboxes, of every server.
pub(super) const HOSTS: &str = "198.18.0.0/15";
/// The first of them.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// How many addresses one server has: two for each range of ids.
const EACH: u32 = 1 << 14;
/// Whether the host passes packets on.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// One sandbox's way out, as its keeper is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    /// The program that loads rules.
    pub(crate) nft: PathBuf,
    /// The host's end.
    pub(crate) interface: String,
    /// The host's address. The sandbox's is the next one.
    pub(crate) outside: Ipv4Addr,
    /// Name servers.
    pub(crate) dns: Vec<Ipv4Addr>,
    /// Closed ranges that the operator opened.
    pub(crate) open: Vec<Cidr>,
}

impl Link {
    /// The sandbox's own address.
    pub(super) fn inside(&self) -> Ipv4Addr {
        (u32::from(self.outside) + 1).into()
    }
}

/// What of the host's names and addresses belongs to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    /// The place of the server that has its sandboxes below this directory. It
    /// must be the same in the next version, so it is FNV-1a and not whatever
    /// the standard library hashes with.
    pub(super) fn of(root: &Path) -> Place {
        let hash = root.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3_u64)
        });
        Place((hash >> 32) as u32)
    }

    /// The table of its rules on the host.
    pub(super) fn table(self) -> String {
        format!("mayfly_{:08x}", self.0)
    }

    /// How the names of its interfaces begin. A name has 15 bytes at most.
    pub(super) fn prefix(self) -> String {
        format!("mf{:04x}-", self.0 >> 16)
    }

    /// The interface of the sandbox with this range of ids.
    pub(super) fn interface(self, range: u32) -> String {
        format!("{}{range}", self.prefix())
    }

    /// Its sandboxes' addresses.
    pub(super) fn addresses(self) -> String {
        format!("{}/18", Ipv4Addr::from(self.first()))
    }

    fn first(self) -> u32 {
        FIRST + self.0 % 8 * EACH
    }
}

/// How sandboxes of a server are to reach the internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// The program that loads rules.
    pub nft: PathBuf,
    /// Name servers.
    pub dns: Vec<Ipv4Addr>,
    /// Closed ranges that the operator opens.
    pub open: Vec<Cidr>,
}

/// A host that is prepared for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wired {
    wiring: Wiring,
    place: Place,
}

impl Wired {
    /// The link of the sandbox with this range of ids.
    pub(super) fn link(&self, range: u32) -> Link {
        Link {
            nft: self.wiring.nft.clone(),
            interface: self.place.interface(range),
            outside: (self.place.first() + 2 * range).into(),
            dns: self.wiring.dns.clone(),
            open: self.wiring.open.clone(),
        }
    }
}

impl Wiring {
    /// Lets the host pass packets of the sandboxes below `root` on, and guard
    /// itself from them. What was prepared before is replaced.
    pub fn prepare(self, root: &Path) -> Result<Wired, Error> {
        let place = Place::of(root);
        let failed = |what| move |source| Error::Host { what, source };
        load(&self.nft, &rules::host(place))
            .map_err(failed("the host's rules for sandboxes with a network could not be loaded"))?;
        let forwarding = || -> io::Result<()> {
            if fs::read_to_string(FORWARDING)?.trim() == "0" {
                fs::write(FORWARDING, "1")?;
                tracing::info!("net.ipv4.ip_forward was 0 and is 1 now, for sandboxes' traffic");
            }
            Ok(())
        };
        forwarding().map_err(failed("the host could not be told to pass packets on"))?;
        Ok(Wired { wiring: self, place })
    }
}

/// The program that loads rules, where it usually is.
pub fn find_nft(exists: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    root_program("nft", exists)
}

/// Takes the host's rules away, if there is a program that can.
pub(super) fn retire(place: Place) {
    let Some(nft) = find_nft(&Path::exists) else { return };
    if let Err(err) = load(&nft, &rules::no_host(place)) {
        tracing::warn!("the host's rules for sandboxes were not removed: {err}");
    }
}

/// Loads rules into the network namespace of the calling thread, all or none.
pub(super) fn load(nft: &Path, rules: &str) -> io::Result<()> {
    let mut command = Command::new(nft);
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // One that ends without reading says why on its other end.
        let _ = input.write_all(rules.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("nft: {}", words.lines().next().unwrap_or("no reason given"))))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Place, Wired, Wiring};

    #[test]
    fn a_place_stays_the_same_and_its_names_fit() {
        let place = Place::of(Path::new("/var/lib/mayfly/sandboxes"));
        assert_eq!(place, Place::of(Path::new("/var/lib/mayfly/sandboxes")));
        assert_ne!(place, Place::of(Path::new("/var/lib/other/sandboxes")));
        assert!(place.interface(8191).len() <= 15);
        assert!(place.table().starts_with(&format!("mayfly_{}", &place.prefix()[2..6])));
    }

    #[test]
    fn every_range_has_two_addresses_of_its_own() {
        let wiring = Wiring { nft: "nft".into(), dns: Vec::new(), open: Vec::new() };
        let wired = Wired { wiring, place: Place(7) };
        let link = |range| wired.link(range);
        assert_eq!(link(0).outside.to_string(), "198.19.192.0");
        assert_eq!(link(0).inside().to_string(), "198.19.192.1");
        assert_eq!(link(8191).outside.to_string(), "198.19.255.254");
        assert_eq!(Place(7).addresses(), "198.19.192.0/18");
    }
}
