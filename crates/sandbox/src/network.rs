//! What sandboxes reach: what a server gives to those that say nothing, which
//! wishes it can fulfil, and how it is written down.

use isolate::{Network, Tier};
use store::StoreError;

use crate::registry::Shared;

/// Why a sandbox does not reach what was wished for.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The tier has no walls in between.
    #[error("sandboxes of tier `process` have the host's network, and no rules can limit it")]
    Unlimited,
    /// The server gives no network.
    #[error(
        "sandboxes of this server have no network: it runs tier `{tier}`, and only `native` with \
         `--network internet` gives one"
    )]
    NotCarried {
        /// The server's tier.
        tier: Tier,
    },
    /// The sandbox has ended.
    #[error("the sandbox was not found: it has just ended")]
    Over,
    /// The host refused.
    #[error("the sandbox's network could not be changed")]
    Walls(#[from] isolate::Error),
    /// It was changed, but could not be written down.
    #[error("the sandbox's network was changed and could not be stored")]
    Store(#[from] StoreError),
}

impl Shared {
    /// What a sandbox reaches that says nothing.
    pub(crate) fn default_network(&self) -> Network {
        match self.settings.tier {
            Tier::Process => Network::OPEN,
            Tier::Native | Tier::Gvisor | Tier::Runc if self.walls.carries_network() => {
                Network::OPEN
            }
            Tier::Native | Tier::Gvisor | Tier::Runc => Network::None,
        }
    }

    /// What a sandbox with this wish reaches, if it can be had here.
    pub(crate) fn network_for(&self, wish: Option<Network>) -> Result<Network, NetworkError> {
        let default = self.default_network();
        match wish {
            None => Ok(default),
            Some(wish) if wish == default || self.walls.carries_network() => Ok(wish),
            Some(_) if self.settings.tier.has_walls() => {
                Err(NetworkError::NotCarried { tier: self.settings.tier })
            }
            Some(_) => Err(NetworkError::Unlimited),
        }
    }
}

/// As the store keeps it.
pub(crate) fn to_column(network: &Network) -> String {
    serde_json::json!(network).to_string()
}

/// As the store kept it. What cannot be read is told as nothing rather than as
/// more than there is.
pub(crate) fn from_column(text: &str) -> Network {
    serde_json::from_str(text).unwrap_or(Network::None)
}
