//! A run's upstreams on disk, for runs that outlive the server: addresses and
//! keys, readable only with the server's key and only for their run.
//!
//! XChaCha20-Poly1305 under a key derived for this purpose; the nonce is random,
//! and the run's id is authenticated, so that no file stands in for another.

use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use serde::{Deserialize, Serialize};
use wire::{Secret, agent::AgentLimits, exposed, run::RunId};

use super::{
    addresses::Addresses,
    outbound::Outbound,
    target::Target,
    tools::{Bridge, Tool},
    upstreams::{Terms, Upstreams},
};

/// The label under which the sealing key is derived from the server's.
pub const SEAL_LABEL: &str = "mayfly run link";

/// First byte of what is sealed; another layout gets another one.
const VERSION: u8 = 2;
const NONCE: usize = 24;

/// The upstreams could not be sealed.
#[derive(Debug, thiserror::Error)]
#[error("cannot seal the upstreams of the run")]
pub struct SealError;

/// Sealed upstreams could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    /// Written by another version, or cut off.
    #[error("the sealed upstreams have an unknown form")]
    Form,
    /// Another key, another run, or changed since.
    #[error("the sealed upstreams are not what was sealed")]
    Forged,
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    agent: Option<Target>,
    link_url: String,
    limits: AgentLimits,
    tokens: Option<u64>,
    addresses: Option<Addresses>,
    #[serde(with = "exposed")]
    bearer: Secret<String>,
    tools: Vec<Tool>,
    file_hook: Option<String>,
}

impl Upstreams {
    /// The upstreams as bytes that only `key` opens, and only for `run`.
    pub fn seal(&self, run: &RunId, key: &Secret<[u8; 32]>) -> Result<Vec<u8>, SealError> {
        let sealed = Sealed {
            agent: self.agent.clone(),
            link_url: self.terms.link_url.clone(),
            limits: self.terms.limits,
            tokens: self.terms.tokens,
            addresses: self.addresses().map(|addresses| (*addresses).clone()),
            bearer: self.bridge.bearer.clone(),
            tools: self.bridge.given.clone(),
            file_hook: self.file_hook.clone(),
        };
        let plain = serde_json::to_vec(&sealed).map_err(|_| SealError)?;
        let nonce: [u8; NONCE] = rand::random();
        let message = Payload { msg: &plain, aad: run.as_str().as_bytes() };
        let cipher = cipher(key).encrypt(&XNonce::from(nonce), message).map_err(|_| SealError)?;
        Ok([&[VERSION], &nonce[..], &cipher].concat())
    }

    /// Opens what `seal` made. Tokens that the run has used since are in its
    /// log: `spent` of them.
    pub fn unseal(
        bytes: &[u8],
        run: &RunId,
        key: &Secret<[u8; 32]>,
        outbound: Outbound,
        spent: u64,
    ) -> Result<Upstreams, UnsealError> {
        let rest = bytes.strip_prefix(&[VERSION]).ok_or(UnsealError::Form)?;
        let (nonce, msg) = rest.split_first_chunk::<NONCE>().ok_or(UnsealError::Form)?;
        let message = Payload { msg, aad: run.as_str().as_bytes() };
        let plain = cipher(key).decrypt(&XNonce::from(*nonce), message);
        let plain = plain.map_err(|_| UnsealError::Forged)?;
        let sealed: Sealed = serde_json::from_slice(&plain).map_err(|_| UnsealError::Form)?;
        let Sealed { agent, link_url, limits, tokens, addresses, bearer, tools, file_hook } =
            sealed;
        let terms = Terms { outbound, link_url, limits, tokens };
        let mut upstreams = Upstreams::new(agent, addresses, terms, spent);
        upstreams.bridge = Bridge::with(bearer, tools);
        Ok(upstreams.with_file_hook(file_hook).of_run(run.clone()))
    }
}

fn cipher(key: &Secret<[u8; 32]>) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key.expose()))
}
