//! What only the SQLite backend promises: about its file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::{DATABASE_FILE, OpenError, Store};
use tempfile::TempDir;

use crate::keys::new_key;

/// A store in a directory of its own.
pub(crate) async fn fresh() -> (Store, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("data")).await.unwrap();
    (store, directory)
}

#[tokio::test]
async fn rows_are_there_after_a_restart() {
    let (store, directory) = fresh().await;
    let (key, secret) = store.create_key(new_key("red")).await.unwrap();
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
    one.unwrap().create_key(new_key("red")).await.unwrap();
    assert!(two.unwrap().has_live_key().await.unwrap());
}

#[tokio::test]
async fn the_data_directory_and_the_database_are_private() {
    let (store, directory) = fresh().await;
    store.create_key(new_key("red")).await.unwrap();
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

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
