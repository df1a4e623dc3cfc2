//! The data plane's credential: derived from the sandbox's id, never stored.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use wire::{SandboxId, Secret};

/// Makes and checks access tokens. The same key gives the same tokens after a
/// restart, so a client that reconnects need not ask for a new one.
#[derive(Clone, Debug)]
pub struct AccessTokens {
    key: Secret<[u8; 32]>,
}

/// The server's key could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the key file {}", path.display())]
pub struct KeyFileError {
    path: PathBuf,
    source: io::Error,
}

impl AccessTokens {
    /// Tokens under `key`.
    pub fn new(key: [u8; 32]) -> AccessTokens {
        AccessTokens { key: Secret::new(key) }
    }

    /// Reads the key from `path`, or makes one there that only we can read.
    pub fn from_file(path: &Path) -> Result<AccessTokens, KeyFileError> {
        let failed = |source| KeyFileError { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                let key: [u8; 32] = rand::random();
                file.write_all(&key).and_then(|()| file.sync_all()).map_err(failed)?;
                Ok(AccessTokens::new(key))
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
                let mut key = [0; 32];
                let file = OpenOptions::new().read(true).open(path);
                file.and_then(|mut file| file.read_exact(&mut key)).map_err(failed)?;
                Ok(AccessTokens::new(key))
            }
            Err(err) => Err(failed(err)),
        }
    }

    /// The token of a sandbox.
    pub fn issue(&self, id: &SandboxId) -> String {
        wire::hex(&self.digest(id))
    }

    /// Whether `token` opens the sandbox, in a time that tells nothing.
    pub fn accepts(&self, id: &SandboxId, token: &str) -> bool {
        self.issue(id).as_bytes().ct_eq(token.as_bytes()).into()
    }

    /// A key for another purpose, which `label` names. It tells nothing about
    /// the server's key, about tokens or about keys with other labels.
    pub fn derive(&self, label: &str) -> Secret<[u8; 32]> {
        Secret::new(self.mac(b"derived key\0", label.as_bytes()))
    }

    fn digest(&self, id: &SandboxId) -> [u8; 32] {
        self.mac(b"envd access token\0", id.as_str().as_bytes())
    }

    fn mac(&self, purpose: &[u8], name: &[u8]) -> [u8; 32] {
        // HMAC fills a short key up with zeros; done here, no length can be wrong.
        let mut block = [0; 64];
        block[..32].copy_from_slice(self.key.expose());
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
        mac.update(purpose);
        mac.update(name);
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use wire::SandboxId;

    use super::AccessTokens;

    #[test]
    fn a_token_opens_its_own_sandbox_and_no_other() {
        let tokens = AccessTokens::new([7; 32]);
        let [one, two] = ["i1", "i2"].map(|id| SandboxId::parse(id).unwrap());
        assert!(tokens.accepts(&one, &tokens.issue(&one)));
        assert!(!tokens.accepts(&two, &tokens.issue(&one)));
        assert!(!tokens.accepts(&one, ""));
        assert!(!AccessTokens::new([8; 32]).accepts(&one, &tokens.issue(&one)));
    }

    #[test]
    fn a_derived_key_belongs_to_its_label() {
        let tokens = AccessTokens::new([7; 32]);
        let [one, again, other] = ["a", "a", "b"].map(|label| *tokens.derive(label).expose());
        assert_eq!(one, again);
        assert_ne!(one, other);
        assert_ne!(one, *AccessTokens::new([8; 32]).derive("a").expose());
    }

    #[test]
    fn a_key_file_is_made_once_and_gives_the_same_tokens() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.key");
        let id = SandboxId::parse("i1").unwrap();
        let first = AccessTokens::from_file(&path).unwrap().issue(&id);
        assert_eq!(AccessTokens::from_file(&path).unwrap().issue(&id), first);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
