//! Whether traffic of sandboxes gets through this host.

use std::fs;
use std::process::{Command, Stdio};

use super::{Check, programs::find};

pub(super) fn forwarding() -> Check {
    const NAME: &str = "ip forwarding";
    match fs::read_to_string("/proc/sys/net/ipv4/ip_forward") {
        Ok(text) if text.trim() == "1" => Check::ok(NAME, "on"),
        Ok(_) => Check::ok(NAME, "off; `serve` switches it on for sandboxes with internet access"),
        Err(err) => Check::limited(
            NAME,
            format!("cannot tell: {err}"),
            "sandboxes with internet access need it: sysctl net.ipv4.ip_forward=1",
        ),
    }
}

/// Rules of others that drop what is passed on, which Docker for one has.
pub(super) fn foreign_rules() -> Check {
    const NAME: &str = "forward policy";
    let listed = said("nft", &["list", "chains"]);
    let legacy = said("iptables-legacy", &["-S", "FORWARD"]);
    let foreign = listed.as_deref().and_then(dropping_chain);
    let legacy = legacy.filter(|text| text.contains("-P FORWARD DROP"));
    match (foreign, legacy, listed) {
        (None, None, Some(_)) => Check::ok(NAME, "nobody drops what sandboxes send"),
        (None, None, None) => Check::limited(
            NAME,
            "cannot tell without nft and root",
            "install nftables and run as root",
        ),
        (foreign, _, _) => Check::limited(
            NAME,
            format!(
                "{} drops what this host passes on, and with it the traffic of sandboxes",
                foreign.as_deref().unwrap_or("iptables-legacy")
            ),
            "let it through, with Docker: iptables -I DOCKER-USER -i mf+ -j ACCEPT and the same \
             with -o mf+; or use --network none",
        ),
    }
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(find(program)?);
    let output = command.args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first table, of those that are not ours, with a chain that drops what is
/// passed on.
fn dropping_chain(listed: &str) -> Option<String> {
    let mut table = "";
    for line in listed.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches(" {");
        }
        let drops = line.contains("hook forward") && line.contains("policy drop");
        if drops && !table.contains(" mayfly_") {
            return Some(format!("table `{table}`"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::dropping_chain;

    #[test]
    fn a_chain_that_drops_is_named_by_its_table() {
        let listed = "table ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority \
                      filter; policy drop;\n\t}\n}\n";
        assert_eq!(dropping_chain(listed).as_deref(), Some("table `ip filter`"));
        assert_eq!(dropping_chain(&listed.replace("drop", "accept")), None);
        assert_eq!(dropping_chain(&listed.replace("ip filter", "inet mayfly_00")), None);
        assert_eq!(dropping_chain(&listed.replace("hook forward", "hook input")), None);
    }
}
