//! From a decision about the network to what sandboxes are wired with, and to
//! words about it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context;
use isolate::{Wired, Wiring};

use crate::config::{Chosen, Network};

/// Where a host's name servers are written down. With systemd the first names
/// only a resolver on loopback, and the second the servers behind it.
const RESOLVERS: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
/// What to ask where the host has no server that a sandbox could reach.
const PUBLIC: [Ipv4Addr; 2] = [Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(8, 8, 8, 8)];

/// Wires the host for sandboxes below `directory`, if they are to have a network.
/// Says what they have got: what nobody asked for may fail.
pub(super) fn wire(
    network: &Network,
    directory: &Path,
) -> anyhow::Result<(Network, Option<Wired>)> {
    let Network::Internet { nft, dns, open, chosen } = network else {
        return Ok((network.clone(), None));
    };
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let dns = if dns.is_empty() { name_servers(&read) } else { dns.clone() };
    let wiring = Wiring { nft: nft.clone(), dns, open: open.clone() };
    match (wiring.prepare(directory), chosen) {
        (Ok(wired), _) => Ok((network.clone(), Some(wired))),
        (Err(err), Chosen::Explicitly) => {
            Err(err).context("--network internet cannot be had here; --network none can")
        }
        (Err(err), Chosen::ByDefault) => {
            let err = anyhow::Error::from(err);
            tracing::warn!("sandboxes have no network: {err:#}");
            Ok((Network::None("the host cannot be wired for more; the log says why"), None))
        }
    }
}

/// The line of the banner.
pub(super) fn describe(network: &Network) -> String {
    match network {
        Network::None(reason) => format!("none ({reason})"),
        Network::OfHost => "the host's (no walls)".to_owned(),
        Network::Internet { .. } => {
            "internet (private ranges are closed; --network none for none)".to_owned()
        }
    }
}

fn name_servers(read: &dyn Fn(&Path) -> String) -> Vec<Ipv4Addr> {
    let reachable = |path: &&str| {
        let text = read(Path::new(path));
        let words = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
        let servers = words.filter_map(|word| word.trim().parse::<Ipv4Addr>().ok());
        let servers: Vec<_> = servers.filter(|server| !server.is_loopback()).take(3).collect();
        if servers.is_empty() { None } else { Some(servers) }
    };
    RESOLVERS.iter().find_map(reachable).unwrap_or_else(|| PUBLIC.to_vec())
}

#[cfg(test)]
mod tests {
    use super::{PUBLIC, RESOLVERS, name_servers};

    #[test]
    fn servers_on_loopback_are_passed_over() {
        let check = |plain: &str, systemd: &str, servers: &[&str]| {
            let read = |path: &std::path::Path| {
                if path.ends_with(&RESOLVERS[0][1..]) {
                    plain.to_owned()
                } else {
                    systemd.to_owned()
                }
            };
            let found: Vec<String> = name_servers(&read).iter().map(ToString::to_string).collect();
            assert_eq!(found, servers);
        };
        check("search x\nnameserver 10.0.0.2\nnameserver ::1\n", "", &["10.0.0.2"]);
        check("nameserver 127.0.0.53\n", "nameserver 9.9.9.9\n", &["9.9.9.9"]);
        check(
            "# nothing\n",
            "",
            &PUBLIC.map(|server| server.to_string()).each_ref().map(|s| &s[..]),
        );
    }
}
