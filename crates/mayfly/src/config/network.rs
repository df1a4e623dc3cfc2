//! What sandboxes of this server reach, decided from what was said and what this
//! host has.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::ValueEnum;
use isolate::{Cidr, Privilege, Tier, find_nft};
use serde::Deserialize;

use super::{ConfigError, Surroundings};

/// What sandboxes reach whose callers say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NetworkMode {
    /// Their own loopback.
    None,
    /// The internet, less private ranges and what their callers deny.
    Internet,
}

/// What it comes down to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Sandboxes have none, for this reason.
    None(&'static str),
    /// Sandboxes have the host's, and nothing in between.
    OfHost,
    /// Sandboxes reach the internet through rules.
    Internet {
        /// Loads the rules.
        nft: PathBuf,
        /// Name servers that the operator named.
        dns: Vec<Ipv4Addr>,
        /// Closed ranges that the operator opened.
        open: Vec<Cidr>,
        /// Who decided it. What nobody asked for is no reason not to start.
        chosen: Chosen,
    },
}

/// Who decided something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// The operator.
    Explicitly,
    /// Nobody: it is what this host can do.
    ByDefault,
}

/// What was said of it.
pub(super) struct Said {
    pub(super) mode: Option<NetworkMode>,
    pub(super) dns: Option<Vec<Ipv4Addr>>,
    pub(super) open: Option<Vec<Cidr>>,
}

impl Network {
    pub(super) fn decide(
        tier: Tier,
        said: Said,
        surroundings: &Surroundings<'_>,
    ) -> Result<Network, ConfigError> {
        let chosen = match said.mode {
            Some(NetworkMode::None) => return Ok(Network::None("as asked for")),
            Some(NetworkMode::Internet) => Chosen::Explicitly,
            None => Chosen::ByDefault,
        };
        let possible = match (tier, surroundings.privilege) {
            (Tier::Process, _) => return Ok(Network::OfHost),
            (Tier::Gvisor | Tier::Runc, _) => Err("this tier gives none yet"),
            (Tier::Native, Privilege::User) => Err("it takes root to give one"),
            (Tier::Native, Privilege::Root) => find_nft(surroundings.exists)
                .ok_or("there is no `nft`; install nftables for internet access"),
        };
        match (possible, chosen) {
            (Ok(nft), chosen) => {
                let (dns, open) = (said.dns.unwrap_or_default(), said.open.unwrap_or_default());
                Ok(Network::Internet { nft, dns, open, chosen })
            }
            (Err(reason), Chosen::ByDefault) => Ok(Network::None(reason)),
            (Err(reason), Chosen::Explicitly) => Err(ConfigError::NoInternet { tier, reason }),
        }
    }
}
