//! The filter rules of a sandbox and of its host, as text for `nft`.
//!
//! ```text
//! inside   output: lo │ opened, DNS ─► wishes │ closed ─► refused │ rest ─► wishes
//! wishes   allowed ─► go │ denied ─► refused │ rest ─► go
//! host     prerouting: foreign sources out │ input: nothing │ forward: never to a neighbour
//! ```
//!
//! A wish can so never open a closed range: only the operator's list is looked
//! at before it. A change of wishes replaces the rules of one chain in one
//! transaction. Ranges are sets without a name, which never change, rather than
//! named ones: a packet sees the old rules with the old sets or the new rules
//! with the new ones, and nothing in between.

use std::{fmt::Write, net::Ipv4Addr};

use super::link::{HOSTS, Link, Place};
use crate::Cidr;

/// What no sandbox reaches unless the operator opened it.
const CLOSED: [&str; 11] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    // Link-local, with the metadata address of most clouds.
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    // Benchmarking: where sandboxes themselves are.
    "198.18.0.0/15",
    // Multicast, and all that is reserved behind it.
    "224.0.0.0/3",
    // Platform services of one cloud, at a public address.
    "168.63.129.16",
];

/// Refused at once rather than dropped: a program inside need not wait.
const REFUSE: &str = "reject with icmpx type admin-prohibited";

/// All rules of a sandbox's own network namespace.
pub(super) fn inside(link: &Link, allow: &[Cidr], deny: &[Cidr]) -> String {
    let closed: Vec<Cidr> = CLOSED.iter().filter_map(|text| text.parse().ok()).collect();
    let servers = link.dns.iter().map(|server| (u32::from(*server), u32::from(*server)));
    let mut outgoing = String::new();
    let mut rule = |words: String| {
        let _ = writeln!(outgoing, "\t\t{words}");
    };
    if let Some(open) = set(bounds(&link.open)) {
        rule(format!("ip daddr {open} goto wishes"));
    }
    if let Some(servers) = set(servers.collect()) {
        rule(format!("ip daddr {servers} udp dport 53 goto wishes"));
        rule(format!("ip daddr {servers} tcp dport 53 goto wishes"));
    }
    if let Some(closed) = set(bounds(&closed)) {
        rule(format!("ip daddr {closed} {REFUSE}"));
    }
    format!(
        "add table inet mayfly\n\
         delete table inet mayfly\n\
         table inet mayfly {{\n\
         \tchain wishes {{\n\
         \t}}\n\
         \tchain output {{\n\
         \t\ttype filter hook output priority filter; policy drop;\n\
         \t\toifname \"lo\" accept\n\
         \t\tmeta nfproto ipv6 {REFUSE}\n\
         \t\tip saddr != {address} drop\n\
         {outgoing}\
         \t\tgoto wishes\n\
         \t}}\n\
         \tchain input {{\n\
         \t\ttype filter hook input priority filter; policy drop;\n\
         \t\tiifname \"lo\" accept\n\
         \t\tct state {{ established, related }} accept\n\
         \t}}\n\
         }}\n\
         {wishes}",
        address = link.inside(),
        wishes = wishes(allow, deny),
    )
}

/// The rules that a client's wishes become, in place of those before.
pub(super) fn wishes(allow: &[Cidr], deny: &[Cidr]) -> String {
    let mut text = "flush chain inet mayfly wishes\n".to_owned();
    for (ranges, verdict) in [(allow, "accept"), (deny, REFUSE)] {
        if let Some(set) = set(bounds(ranges)) {
            let _ = writeln!(text, "add rule inet mayfly wishes ip daddr {set} {verdict}");
        }
    }
    text.push_str("add rule inet mayfly wishes accept\n");
    text
}

/// The rules of the host for all sandboxes of one server, whose interfaces they
/// know by the beginning of their names.
pub(super) fn host(place: Place) -> String {
    let table = place.table();
    let ours = format!("\"{}*\"", place.prefix());
    let addresses = place.addresses();
    format!(
        "add table inet {table}\n\
         delete table inet {table}\n\
         table inet {table} {{\n\
         \tchain prerouting {{\n\
         \t\ttype filter hook prerouting priority raw; policy accept;\n\
         \t\tiifname {ours} meta nfproto ipv6 drop\n\
         \t\tiifname {ours} ip saddr != {addresses} drop\n\
         \t\tiifname {ours} fib saddr . iif oif missing drop\n\
         \t}}\n\
         \tchain input {{\n\
         \t\ttype filter hook input priority filter; policy accept;\n\
         \t\tiifname {ours} drop\n\
         \t}}\n\
         \tchain forward {{\n\
         \t\ttype filter hook forward priority filter; policy accept;\n\
         \t\tiifname {ours} ip daddr {HOSTS} drop\n\
         \t\toifname {ours} ct state != {{ established, related }} drop\n\
         \t}}\n\
         \tchain postrouting {{\n\
         \t\ttype nat hook postrouting priority srcnat; policy accept;\n\
         \t\tip saddr {addresses} masquerade\n\
         \t}}\n\
         }}\n"
    )
}

/// Takes the host's rules away, whether or not they are there.
pub(super) fn no_host(place: Place) -> String {
    let table = place.table();
    format!("add table inet {table}\ndelete table inet {table}\n")
}

fn bounds(ranges: &[Cidr]) -> Vec<(u32, u32)> {
    ranges.iter().filter_map(|range| range.bounds()).collect()
}

/// The ranges as one set, or none if there are none. `nft` refuses ranges that
/// overlap, so they are merged first.
fn set(mut ranges: Vec<(u32, u32)>) -> Option<String> {
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            Some(_) | None => merged.push((first, last)),
        }
    }
    let words: Vec<String> = merged.into_iter().map(range).collect();
    if words.is_empty() { None } else { Some(format!("{{ {} }}", words.join(", "))) }
}

fn range((first, last): (u32, u32)) -> String {
    let [first, last] = [first, last].map(Ipv4Addr::from);
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

#[cfg(test)]
mod tests;
