//! What a workspace is told when it starts.

use std::time::Duration;

use chrono::TimeDelta;
use http_kit::Keys;
use store::{Blobs, Store};
use subtle::ConstantTimeEq;
use wire::Secret;

use crate::keyring::mac;

/// What keys for the server's own runner start with.
const DERIVED: &str = "wsk_";

/// Everything a workspace needs.
#[derive(Clone)]
pub struct Settings {
    /// Rows.
    pub store: Store,
    /// Contents of files.
    pub blobs: Blobs,
    /// Who may use the workspace.
    pub keys: Keys,
    /// The server's key, below which secrets are sealed and addresses signed.
    pub secret: Secret<[u8; 32]>,
    /// Where runners and browsers reach this server, without a slash at its end.
    pub base_url: String,
    /// Where turns and agents are dispatched to.
    pub runner: RunnerAddress,
    /// The cap of a run, and so the life of a sandbox's bearer.
    pub max_runtime: Duration,
    /// How long the address of a bag's zip is good.
    pub bag_url_ttl: Duration,
    /// How long nobody may listen to a turn before it counts as abandoned.
    pub listener_grace: Duration,
    /// How long the events of ended turns and executions are kept.
    pub keep: TimeDelta,
}

/// The runner that is used unless a workflow names another.
#[derive(Clone, Debug)]
pub struct RunnerAddress {
    /// `SANDBOX_URL`, without a slash at its end.
    pub url: String,
    /// How it knows us.
    pub key: RunnerKey,
}

/// How a runner knows us.
#[derive(Clone, Debug)]
pub enum RunnerKey {
    /// It is this server's own: a key for each workspace is derived from this.
    Derived(Secret<[u8; 32]>),
    /// It is somebody else's, and this is our key there.
    Fixed(Secret<String>),
    /// It asks for none.
    None,
}

impl RunnerKey {
    /// The API key to send for work of `workspace`.
    pub(crate) fn for_workspace(&self, workspace: &str) -> Option<Secret<String>> {
        match self {
            RunnerKey::Derived(secret) => Some(Secret::new(derived_key(secret, workspace))),
            RunnerKey::Fixed(key) => Some(key.clone()),
            RunnerKey::None => None,
        }
    }
}

/// The team behind a derived key, if `secret` made it.
pub fn team_of_derived_key(secret: &Secret<[u8; 32]>, key: &str) -> Option<String> {
    let (team, _) = key.strip_prefix(DERIVED)?.split_once('_')?;
    let digits = team.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    let team = String::from_utf8(digits.collect::<Option<Vec<u8>>>()?).ok()?;
    let expected = derived_key(secret, &team);
    bool::from(expected.as_bytes().ct_eq(key.as_bytes())).then_some(team)
}

/// In hexadecimal, because a team may have any name and a header may not.
fn derived_key(secret: &Secret<[u8; 32]>, team: &str) -> String {
    let proof = wire::hex(&mac(secret, team.as_bytes()));
    format!("{DERIVED}{}_{proof}", wire::hex(team.as_bytes()))
}

#[cfg(test)]
mod tests {
    use wire::Secret;

    use super::{derived_key, team_of_derived_key};

    #[test]
    fn a_derived_key_opens_its_team_and_nothing_else() {
        let (ours, other) = (Secret::new([1; 32]), Secret::new([2; 32]));
        for team in ["default", "", "Müller & Söhne", "a_b"] {
            let key = derived_key(&ours, team);
            assert!(key.bytes().all(|b| b.is_ascii_graphic()), "{key}");
            assert_eq!(team_of_derived_key(&ours, &key).as_deref(), Some(team));
            assert_eq!(team_of_derived_key(&other, &key), None);
            assert_eq!(team_of_derived_key(&ours, &key[..key.len() - 1]), None);
        }
        let forged = derived_key(&ours, "red").replace("726564", "626c7565");
        for wrong in ["", "wsk_", "wsk_7_", "wsk_zz_00", "e2b_1", &forged] {
            assert_eq!(team_of_derived_key(&ours, wrong), None, "{wrong}");
        }
    }
}
