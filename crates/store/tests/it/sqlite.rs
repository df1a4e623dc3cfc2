//! What only the SQLite backend promises: its file, and what is not in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::{DATABASE_FILE, NewKey, OpenError, Store};
use tempfile::TempDir;
use wire::Secret;

/// A store in a directory of its own.
pub(crate) async fn fresh() -> (Store, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("data")).await.unwrap();
    (store, directory)
}

#[tokio::test]
async fn no_key_is_in_the_files_before_or_after_the_log_is_folded_in() {
    let (store, directory) = fresh().await;
    let data = directory.path().join("data");
    let (key, made) = store.create_key(new_key()).await.unwrap();
    let (_, rotated) = store.rotate_key(&key.id).await.unwrap();
    let imported = Secret::new(format!("e2b_{}", "5a".repeat(20)));
    store.import_key(&imported, new_key()).await.unwrap();
    let secrets = [made, rotated, imported];
    assert_absent(&data, &secrets);
    // The check itself can find things: a key's id is there in plain.
    assert!(contains(&data, &key.id));
    store.close().await;
    assert_absent(&data, &secrets);
}

#[tokio::test]
async fn rows_are_there_after_a_restart() {
    let (store, directory) = fresh().await;
    let (key, secret) = store.create_key(new_key()).await.unwrap();
    // Dropped without a close, as a killed server would.
    drop(store);
    let store = Store::open(&directory.path().join("data")).await.unwrap();
    assert_eq!(store.list_keys().await.unwrap(), [key]);
    assert!(store.team_of(secret.expose()).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_first_starts_in_one_directory_both_succeed() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (one, two) = tokio::join!(Store::open(&data), Store::open(&data));
    one.unwrap().create_key(new_key()).await.unwrap();
    assert!(two.unwrap().has_live_key().await.unwrap());
}

#[tokio::test]
async fn the_data_directory_and_the_database_are_private() {
    let (store, directory) = fresh().await;
    store.create_key(new_key()).await.unwrap();
    let data = directory.path().join("data");
    assert_eq!(mode(&data), 0o700);
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn the_data_path_being_a_file_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, "").unwrap();
    let err = Store::open(&data).await.unwrap_err();
    assert!(matches!(&err, OpenError::Create { .. }), "{err:?}");
    assert_eq!(err.to_string(), format!("cannot make `{}`", data.display()));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(DATABASE_FILE);
    let text = "not a database ".repeat(100);
    fs::write(&file, &text).unwrap();
    let err = Store::open(directory.path()).await.unwrap_err();
    assert!(matches!(&err, OpenError::Connect { .. }), "{err:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

fn new_key() -> NewKey {
    NewKey { team: "red".to_owned(), name: "laptop".to_owned() }
}

#[track_caller]
fn assert_absent(data: &Path, secrets: &[Secret<String>]) {
    for secret in secrets {
        // The digits alone: with the prefix a hint might hide a leak.
        let digits = secret.expose().strip_prefix("e2b_").unwrap();
        assert!(!contains(data, digits));
    }
}

fn contains(data: &Path, text: &str) -> bool {
    let mut found = false;
    for entry in fs::read_dir(data).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        found |= bytes.windows(text.len()).any(|window| window == text.as_bytes());
    }
    found
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
