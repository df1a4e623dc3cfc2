//! No key and no token is in what a database keeps, whatever is done with it.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use store::{NewBearer, NewOtp, OtpKind, Store};
use wire::Secret;

use crate::keys::new_key;
use crate::sessions::session;
use crate::time::second;

#[tokio::test]
async fn no_secret_is_in_the_files_before_or_after_the_log_is_folded_in() {
    let (store, directory) = crate::sqlite::fresh().await;
    let data = directory.path().join("data");
    let used = use_secrets(&store).await;
    used.check(&bytes_of(&data));
    store.close().await;
    used.check(&bytes_of(&data));
}

#[tokio::test]
async fn no_secret_is_in_a_dump() {
    let Some((store, database)) = crate::postgres::fresh().await else { return };
    let used = use_secrets(&store).await;
    used.check(database.dump().as_bytes());
}

struct Used {
    secrets: Vec<Secret<String>>,
    /// What is kept in the open, to show that the check can find things.
    kept: Vec<String>,
}

/// Makes, imports and rotates keys, and opens a session with its tokens.
async fn use_secrets(store: &Store) -> Used {
    let (key, made) = store.create_key(new_key("red")).await.unwrap();
    let (_, rotated) = store.rotate_key(&key.id).await.unwrap();
    let imported = Secret::new(format!("e2b_{}", "5a".repeat(20)));
    store.import_key(&imported, new_key("red")).await.unwrap();

    let row = session(1);
    let otp = Secret::new(format!("otp_{}", "Ab-".repeat(14)));
    let bearer = Secret::new(format!("asbx_{}", "Cd_".repeat(14)));
    let new = NewOtp { hash: hash(&otp), kind: OtpKind::Run, expires_at: second(600) };
    let new_bearer = NewBearer { hash: hash(&bearer), expires_at: second(600) };
    store.open_session(&row, &[new], &new_bearer).await.unwrap();
    store.redeem_otp(&row.id, OtpKind::Run, &hash(&otp), second(1)).await.unwrap().unwrap();
    store.session_of_bearer(&hash(&bearer), second(1)).await.unwrap().unwrap();
    store.settle_session(&row.id, second(2)).await.unwrap();

    let secrets = vec![made, rotated, imported, otp, bearer];
    Used { secrets, kept: vec![key.id, row.id.to_string()] }
}

impl Used {
    #[track_caller]
    fn check(&self, bytes: &[u8]) {
        for secret in &self.secrets {
            // The digits alone: with the prefix a hint might hide a leak.
            let (_, digits) = secret.expose().split_once('_').unwrap();
            assert!(!contains(bytes, digits));
        }
        for kept in &self.kept {
            assert!(contains(bytes, kept), "{kept}");
        }
    }
}

fn hash(secret: &Secret<String>) -> [u8; 32] {
    Sha256::digest(secret.expose().as_bytes()).into()
}

fn bytes_of(data: &Path) -> Vec<u8> {
    let files = fs::read_dir(data).unwrap();
    files.flat_map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
