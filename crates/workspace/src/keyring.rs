//! The keys that are derived from the server's own: one seals secrets at rest,
//! one signs addresses, one makes bearers.
//!
//! What is sealed says what it is sealed for, so that no sealed value stands in
//! for another: a model's key does not open as an environment's.

use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use chrono::{DateTime, Utc};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use wire::Secret;

/// First byte of what is sealed; another layout gets another one.
const VERSION: u8 = 1;
const NONCE: usize = 24;

/// Keys of one server. Clones are the same keys.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    seal: Secret<[u8; 32]>,
    sign: Secret<[u8; 32]>,
    bearer: Secret<[u8; 32]>,
}

/// A secret could not be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    #[error("the secret cannot be sealed")]
    Seal,
    #[error("the sealed secret was made with another key, or was changed")]
    Open,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadSignature {
    #[error("the address is not signed by this server")]
    Forged,
    #[error("the address has expired; ask for a new one")]
    Expired,
}

impl Keyring {
    /// The keys below the server's one.
    pub(crate) fn new(server: &Secret<[u8; 32]>) -> Keyring {
        let below = |label: &str| Secret::new(mac(server, label.as_bytes()));
        Keyring {
            seal: below("workspace secrets at rest"),
            sign: below("workspace signed addresses"),
            bearer: below("workspace sandbox bearers"),
        }
    }

    /// Bytes that only this keyring opens, and only as `what`.
    pub(crate) fn seal(&self, what: &str, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let nonce: [u8; NONCE] = rand::random();
        let message = Payload { msg: plain, aad: what.as_bytes() };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), message);
        let sealed = sealed.map_err(|_| SealError::Seal)?;
        Ok([&[VERSION], &nonce[..], &sealed].concat())
    }

    /// Opens what `seal` made for the same `what`.
    pub(crate) fn open(&self, what: &str, sealed: &[u8]) -> Result<Secret<Vec<u8>>, SealError> {
        let rest = sealed.strip_prefix(&[VERSION]).ok_or(SealError::Open)?;
        let (nonce, msg) = rest.split_first_chunk::<NONCE>().ok_or(SealError::Open)?;
        let message = Payload { msg, aad: what.as_bytes() };
        let plain = self.cipher().decrypt(&XNonce::from(*nonce), message);
        plain.map(Secret::new).map_err(|_| SealError::Open)
    }

    /// The query that makes `subject` (a path and what belongs to it) good
    /// until `expires_at`: `exp=…&sig=…`.
    pub(crate) fn sign(&self, subject: &str, expires_at: DateTime<Utc>) -> String {
        let expiry = expires_at.timestamp();
        let signature = wire::hex(&mac(&self.sign, canonical(subject, expiry).as_bytes()));
        format!("exp={expiry}&sig={signature}")
    }

    /// Whether a query that `sign` made still stands for `subject`.
    pub(crate) fn verify(
        &self,
        subject: &str,
        expiry: i64,
        signature: &str,
        now: DateTime<Utc>,
    ) -> Result<(), BadSignature> {
        let expected = wire::hex(&mac(&self.sign, canonical(subject, expiry).as_bytes()));
        if !bool::from(expected.as_bytes().ct_eq(signature.as_bytes())) {
            return Err(BadSignature::Forged);
        }
        if expiry < now.timestamp() { Err(BadSignature::Expired) } else { Ok(()) }
    }

    /// 32 bytes that only this server can make of `name`.
    pub(crate) fn bearer_bytes(&self, name: &str) -> [u8; 32] {
        mac(&self.bearer, name.as_bytes())
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&Key::from(*self.seal.expose()))
    }
}

/// SHA-256, which is how tokens are stored: they are random enough for it.
pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// HMAC-SHA-256 under a key of ours.
pub(crate) fn mac(key: &Secret<[u8; 32]>, message: &[u8]) -> [u8; 32] {
    // HMAC takes a whole block; a shorter key is one that ends in zeros.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key.expose());
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The expiry is a number, so nothing in the subject can pass for it.
fn canonical(subject: &str, expiry: i64) -> String {
    format!("{expiry}\n{subject}")
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};
    use wire::Secret;

    use super::{BadSignature, Keyring, SealError};

    fn keyring(byte: u8) -> Keyring {
        Keyring::new(&Secret::new([byte; 32]))
    }

    #[test]
    fn what_is_sealed_opens_only_for_its_purpose_and_its_key() {
        let sealed = keyring(1).seal("model", b"sk-1").unwrap();
        assert!(!sealed.windows(4).any(|part| part == b"sk-1"));
        assert_eq!(keyring(1).open("model", &sealed).unwrap().expose(), b"sk-1");
        let refused = |keyring: Keyring, what, sealed: &[u8]| keyring.open(what, sealed).err();
        assert_eq!(refused(keyring(1), "environment", &sealed), Some(SealError::Open));
        assert_eq!(refused(keyring(2), "model", &sealed), Some(SealError::Open));
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(refused(keyring(1), "model", &changed), Some(SealError::Open), "{place}");
        }
        assert_eq!(refused(keyring(1), "model", b""), Some(SealError::Open));
    }

    #[test]
    fn a_signed_address_stands_until_it_expires_and_for_nothing_else() {
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let query = keyring(1).sign("bags/chat_1", now + TimeDelta::seconds(300));
        let (expiry, signature) = query.split_once("&sig=").unwrap();
        let expiry: i64 = expiry.strip_prefix("exp=").unwrap().parse().unwrap();
        let verify = |subject, expiry, signature: &str, later| {
            keyring(1).verify(subject, expiry, signature, now + TimeDelta::seconds(later))
        };
        assert_eq!(verify("bags/chat_1", expiry, signature, 300), Ok(()));
        assert_eq!(verify("bags/chat_1", expiry, signature, 301), Err(BadSignature::Expired));
        assert_eq!(verify("bags/chat_2", expiry, signature, 0), Err(BadSignature::Forged));
        assert_eq!(verify("bags/chat_1", expiry + 1, signature, 0), Err(BadSignature::Forged));
        assert_eq!(verify("bags/chat_1", expiry, &signature[1..], 0), Err(BadSignature::Forged));
        let other = keyring(2).verify("bags/chat_1", expiry, signature, now);
        assert_eq!(other, Err(BadSignature::Forged));
    }
}
