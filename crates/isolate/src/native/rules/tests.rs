//! The texts, and an interpreter of them small enough to be right.

use std::net::Ipv4Addr;

use super::{host, inside, set, wishes};
use crate::{
    Cidr,
    native::link::{Link, Place},
};

fn ranges(words: &[&str]) -> Vec<Cidr> {
    words.iter().map(|text| text.parse().unwrap()).collect()
}

fn link(dns: &[&str], open: &[&str]) -> Link {
    Link {
        nft: "/usr/sbin/nft".into(),
        interface: "mf0000-7".to_owned(),
        outside: "198.18.0.14".parse().unwrap(),
        dns: dns.iter().map(|text| text.parse().unwrap()).collect(),
        open: ranges(open),
    }
}

#[test]
fn ranges_that_touch_or_overlap_become_one() {
    let check = |words: &[&str], text: Option<&str>| {
        assert_eq!(set(super::bounds(&ranges(words))).as_deref(), text);
    };
    check(&[], None);
    check(&["::/0"], None);
    check(&["1.1.1.1"], Some("{ 1.1.1.1 }"));
    check(&["10.1.0.0/16", "10.0.0.0/8", "9.0.0.0/8"], Some("{ 9.0.0.0-10.255.255.255 }"));
    check(&["1.1.1.1", "1.1.1.3"], Some("{ 1.1.1.1, 1.1.1.3 }"));
    check(&["0.0.0.0/0", "255.255.255.255"], Some("{ 0.0.0.0-255.255.255.255 }"));
}

#[test]
fn wishes_replace_each_other_in_one_chain() {
    assert_eq!(
        wishes(&ranges(&["1.1.1.1"]), &ranges(&["0.0.0.0/0"])),
        "flush chain inet mayfly wishes\n\
         add rule inet mayfly wishes ip daddr { 1.1.1.1 } accept\n\
         add rule inet mayfly wishes ip daddr { 0.0.0.0-255.255.255.255 } \
         reject with icmpx type admin-prohibited\n\
         add rule inet mayfly wishes accept\n"
    );
    assert_eq!(
        wishes(&[], &[]),
        "flush chain inet mayfly wishes\nadd rule inet mayfly wishes accept\n"
    );
}

#[test]
fn the_hosts_rules_name_the_servers_own_interfaces_and_addresses() {
    let text = host(Place::of(std::path::Path::new("/data/sandboxes")));
    for words in ["drop", "masquerade", "hook input", "hook forward", "hook prerouting"] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    let interfaces = text.matches("iifname \"mf").count();
    assert_eq!(interfaces, text.matches("iifname").count(), "{text}");
}

/// What becomes of a packet, by the rules as they are written.
fn goes(rules: &str, destination: &str, port: u16) -> bool {
    let destination: Ipv4Addr = destination.parse().unwrap();
    let output = rules.lines().skip_while(|line| !line.contains("chain output"));
    let output = output.map(str::trim).take_while(|line| *line != "}");
    let chain = |line: &str| matches(line, destination, port);
    let first = output.filter(|line| line.starts_with("ip daddr") || *line == "goto wishes");
    let first = first.into_iter().find(|line| chain(line)).unwrap();
    if !first.ends_with("goto wishes") {
        return false;
    }
    let wishes = rules.lines().filter_map(|line| line.strip_prefix("add rule inet mayfly wishes "));
    wishes.into_iter().find(|line| chain(line)).unwrap().ends_with("accept")
}

fn matches(line: &str, destination: Ipv4Addr, port: u16) -> bool {
    let to_port = !line.contains("dport 53") || port == 53;
    let Some((_, set)) = line.split_once("{ ") else { return to_port };
    let (set, _) = set.split_once(" }").unwrap();
    let within = set.split(", ").any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let address = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        (address(first)..=address(last)).contains(&destination)
    });
    within && to_port
}

#[test]
fn private_ranges_are_closed_to_every_wish_and_open_to_the_operators() {
    let private = [
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.14",
        "198.19.255.255",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
    ];
    for address in private {
        for allow in [&[][..], &["0.0.0.0/0"], &[address]] {
            let rules = inside(&link(&[], &[]), &ranges(allow), &[]);
            assert!(!goes(&rules, address, 80), "{address} with {allow:?}");
        }
        let opened = link(&[], &[address]);
        assert!(goes(&inside(&opened, &[], &[]), address, 80), "{address} opened");
        assert!(!goes(&inside(&opened, &[], &ranges(&[address])), address, 80), "{address} denied");
    }
    for address in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "203.0.113.9", "198.17.255.255"] {
        assert!(goes(&inside(&link(&[], &[]), &[], &[]), address, 80), "{address}");
    }
}

#[test]
fn what_is_allowed_wins_over_what_is_denied() {
    let rules = inside(&link(&[], &[]), &ranges(&["1.1.1.0/24"]), &ranges(&["0.0.0.0/0"]));
    assert!(goes(&rules, "1.1.1.7", 443));
    assert!(!goes(&rules, "1.1.2.7", 443));
}

#[test]
fn a_private_name_server_answers_on_its_port_unless_all_is_denied() {
    let link = link(&["10.0.0.2"], &[]);
    let rules = inside(&link, &[], &[]);
    assert!(goes(&rules, "10.0.0.2", 53));
    assert!(!goes(&rules, "10.0.0.2", 80));
    let rules = inside(&link, &[], &ranges(&["0.0.0.0/0"]));
    assert!(!goes(&rules, "10.0.0.2", 53));
}
