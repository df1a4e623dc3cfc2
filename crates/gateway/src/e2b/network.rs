//! What a sandbox may reach: `network` and `allow_internet_access` at its making,
//! `PUT /sandboxes/{id}/network` later. A change is detached: a client that hangs
//! up abandons its wait.

use axum::{extract::State, http::StatusCode};
use http_kit::{Body, Fault};
use sandbox::{Cidr, Network};
use wire::{Code, NetworkConfig, NetworkUpdate};

use crate::{Gateway, caller::Owned, fault};

/// How many ranges a list may have.
const LONGEST: usize = 1_000;
/// All addresses that there are for a sandbox.
const EVERYTHING: &str = "0.0.0.0/0";

/// `PUT /sandboxes/{id}/network`: replaces everything that was said before.
pub(crate) async fn update(
    State(gateway): State<Gateway>,
    Owned(sandbox): Owned,
    Body(body): Body<NetworkUpdate>,
) -> Result<StatusCode, Fault> {
    let network = match wish(Some(&body.network), body.allow_internet_access)? {
        Some(network) => network,
        // Nothing is said, so nothing is denied, as far as this server goes.
        None => gateway.sandboxes.default_network(),
    };
    let change = gateway.sandboxes.detach(async move { sandbox.set_network(network).await });
    let changed = change.await.map_err(|err| {
        Fault::new(Code::Internal, "changing the network was interrupted").caused_by(err)
    })?;
    changed.map_err(fault::of_network)?;
    Ok(StatusCode::NO_CONTENT)
}

/// What the caller of a new sandbox wishes, or `None` if that is what all get.
///
/// `allow_internet_access: true` alone is no wish: older SDKs send it unasked,
/// and their default must work on a server without a network. What a sandbox has
/// got, `GET /sandboxes/{id}` tells.
pub(crate) fn wish(
    config: Option<&NetworkConfig>,
    internet: Option<bool>,
) -> Result<Option<Network>, Fault> {
    let (mut allow, mut deny) = (Vec::new(), Vec::new());
    if let Some(config) = config {
        refuse_what_is_not_there(config)?;
        allow = ranges("allowOut", config.allow_out.as_deref().unwrap_or_default())?;
        deny = ranges("denyOut", config.deny_out.as_deref().unwrap_or_default())?;
    }
    if let Some(range) = allow.iter().find(|range| !range.is_ipv4()) {
        let message = format!("`network.allowOut` has `{range}`: sandboxes carry no IPv6");
        return Err(Fault::new(Code::InvalidArgument, message));
    }
    if internet == Some(false) && !deny.iter().any(|range| range.is_everything()) {
        deny.extend(EVERYTHING.parse::<Cidr>());
    }
    if allow.is_empty() && deny.is_empty() {
        return Ok(None);
    }
    let nothing = allow.is_empty() && deny.iter().any(|range| range.is_everything());
    Ok(Some(if nothing { Network::None } else { Network::Internet { allow, deny } }))
}

/// Whether a sandbox reaches the internet, and by which rules.
pub(crate) fn describe(network: &Network) -> (bool, Option<NetworkConfig>) {
    let texts = |ranges: &[Cidr]| Some(ranges.iter().map(Cidr::to_string).collect());
    match network {
        Network::None => {
            let deny_out = Some(vec![EVERYTHING.to_owned()]);
            (false, Some(NetworkConfig { deny_out, ..NetworkConfig::default() }))
        }
        Network::Internet { allow, deny } if allow.is_empty() && deny.is_empty() => (true, None),
        Network::Internet { allow, deny } => {
            let all_denied = deny.iter().any(|range| range.is_everything());
            let (allow_out, deny_out) = (texts(allow), texts(deny));
            (!all_denied, Some(NetworkConfig { allow_out, deny_out, ..NetworkConfig::default() }))
        }
    }
}

fn ranges(field: &str, texts: &[String]) -> Result<Vec<Cidr>, Fault> {
    let bad = |message| Err(Fault::new(Code::InvalidArgument, message));
    if texts.len() > LONGEST {
        return bad(format!("`network.{field}` has more than {LONGEST} entries"));
    }
    let mut ranges = Vec::new();
    for text in texts {
        match text.parse::<Cidr>() {
            Ok(range) => ranges.push(range),
            Err(err) => {
                return bad(format!(
                    "`network.{field}`: {err}; domains are not in this version of Mayfly"
                ));
            }
        }
    }
    Ok(ranges)
}

/// A rule that would be ignored is refused by name: silence would look like consent.
fn refuse_what_is_not_there(config: &NetworkConfig) -> Result<(), Fault> {
    let wished = |value: &Option<serde_json::Value>| {
        value.as_ref().is_some_and(|value| match value {
            serde_json::Value::Null => false,
            serde_json::Value::Array(list) => !list.is_empty(),
            serde_json::Value::Object(map) => !map.is_empty(),
            serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::String(_) => true,
        })
    };
    let fields = [
        ("dnsServers", wished(&config.dns_servers)),
        ("egressProxy", wished(&config.egress_proxy)),
        ("rules", wished(&config.rules)),
        ("maskRequestHost", wished(&config.mask_request_host)),
        ("httpsPorts", wished(&config.https_ports)),
        ("allowPublicTraffic: false", config.allow_public_traffic == Some(false)),
    ];
    match fields.into_iter().find(|(_, wished)| *wished) {
        None => Ok(()),
        Some((field, _)) => Err(Fault::new(
            Code::InvalidArgument,
            format!("`network.{field}` is not in this version of Mayfly"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use sandbox::Network;
    use wire::NetworkConfig;

    use super::{describe, wish};

    fn config(text: &str) -> NetworkConfig {
        serde_json::from_str(text).unwrap()
    }

    fn internet(allow: &[&str], deny: &[&str]) -> Network {
        let ranges = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Network::Internet { allow: ranges(allow), deny: ranges(deny) }
    }

    #[test]
    fn wishes_become_networks() {
        let check = |text: &str, access: Option<bool>, network: Option<Network>| {
            let found = wish(Some(&config(text)), access).unwrap();
            assert_eq!(found, network, "{text} {access:?}");
        };
        check("{}", None, None);
        check("{}", Some(true), None);
        check("{}", Some(false), Some(Network::None));
        check(r#"{"denyOut":["0.0.0.0/0"]}"#, None, Some(Network::None));
        check(r#"{"denyOut":["8.8.8.8","::/0"]}"#, None, Some(internet(&[], &["8.8.8.8", "::/0"])));
        let one = || Some(internet(&["1.1.1.1"], &["0.0.0.0/0"]));
        check(r#"{"allowOut":["1.1.1.1/32"]}"#, Some(false), one());
        check(r#"{"allowOut":["1.1.1.1"],"denyOut":["0.0.0.0/0"]}"#, Some(false), one());
        check(r#"{"rules":{},"dnsServers":[],"egressProxy":null}"#, None, None);
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let check = |text: &str, part: &str| {
            let refused = wish(Some(&config(text)), None).unwrap_err();
            assert!(refused.message().contains(part), "{text}: {}", refused.message());
        };
        check(r#"{"rules":{"a.test":[]}}"#, "`network.rules` is not in this version");
        check(r#"{"dnsServers":["1.1.1.1"]}"#, "network.dnsServers");
        check(r#"{"egressProxy":{"address":"a:1"}}"#, "network.egressProxy");
        check(r#"{"allowPublicTraffic":false}"#, "network.allowPublicTraffic");
        check(r#"{"allowOut":["a.test"]}"#, "domains are not in this version");
        check(r#"{"denyOut":["*.a.test"]}"#, "`network.denyOut`");
        check(r#"{"allowOut":["::1"]}"#, "carry no IPv6");
        check(r#"{"denyOut":["1.1.1.1/33"]}"#, "1.1.1.1/33");
    }

    #[test]
    fn what_a_sandbox_reaches_is_told_as_it_was_said() {
        assert_eq!(describe(&Network::OPEN), (true, None));
        let (access, network) = describe(&Network::None);
        assert!(!access);
        assert_eq!(network.unwrap().deny_out.unwrap(), ["0.0.0.0/0"]);
        let (access, network) = describe(&internet(&["1.1.1.1"], &["2.2.0.0/16"]));
        assert!(access);
        assert_eq!(network.unwrap().allow_out.unwrap(), ["1.1.1.1"]);
    }
}
