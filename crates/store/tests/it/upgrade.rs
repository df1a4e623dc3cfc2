//! A database from before there were workspaces opens and keeps its rows.

use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use store::{DATABASE_FILE, OnDisconnect, RunState, Store};
use wire::workspace::ResourceKind;
use wire::{SandboxId, run::RunId};

use crate::resources::resource;
use crate::time::second;

const KEY: &str = "e2b_of_before";
const INSERT_KEY: &str = "INSERT INTO api_keys (id, team, name, hash, hint, created_at)
     VALUES ('key_1', 'red', 'laptop', $1, 'e2b_…', 1800000000000)";
const INSERT_SANDBOX: &str = "INSERT INTO sandboxes
         (id, team, template, tier, metadata, started_at, deadline, network)
     VALUES ('ione', 'red', 'base', 'native', '{\"a\":\"b\"}', 1800000000000, 1800000300000,
         '\"none\"')";
const INSERT_RUN: &str = "INSERT INTO runs
         (id, team, sandbox_id, state, on_disconnect, prompt_head, started_at, deadline, ended_at,
          last_seq, input_tokens, output_tokens)
     VALUES ($1, 'red', 'ione', 'succeeded', 'continue', 'Say hello', 1800000000000,
         1800000300000, 1800000001000, 3, 4, 5)";

/// Writes the rows as that version did.
macro_rules! write_rows {
    ($connection:expr) => {
        let hash = Sha256::digest(KEY.as_bytes()).to_vec();
        sqlx::query(INSERT_KEY).bind(hash).execute(&mut $connection).await.unwrap();
        sqlx::query(INSERT_SANDBOX).execute(&mut $connection).await.unwrap();
        let run = RunId::from_random([1; 15]);
        sqlx::query(INSERT_RUN).bind(run.as_str()).execute(&mut $connection).await.unwrap();
        $connection.close().await.unwrap();
    };
}

#[tokio::test]
async fn a_data_directory_of_before_keeps_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(DATABASE_FILE);
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let mut before = options.connect().await.unwrap();
    sqlx::migrate!("migrations/sqlite").run_to(3, &mut before).await.unwrap();
    write_rows!(before);
    check(Store::open(directory.path()).await.unwrap()).await;
}

#[tokio::test]
async fn a_postgres_database_of_before_keeps_its_rows() {
    let Some(database) = crate::postgres::empty() else { return };
    let mut before = PgConnection::connect(database.address().expose()).await.unwrap();
    sqlx::migrate!("migrations/postgres").run_to(1, &mut before).await.unwrap();
    write_rows!(before);
    check(Store::connect(&database.address()).await.unwrap()).await;
}

async fn check(store: Store) {
    assert_eq!(store.team_of(KEY).await.unwrap().as_deref(), Some("red"));
    let sandbox = store.sandbox(&SandboxId::parse("ione").unwrap()).await.unwrap().unwrap();
    assert_eq!((sandbox.deadline, sandbox.metadata["a"].as_str()), (second(300), "b"));
    let run = store.run(&RunId::from_random([1; 15])).await.unwrap().unwrap();
    assert_eq!((run.state, run.on_disconnect), (RunState::Succeeded, OnDisconnect::Continue));
    assert_eq!((run.ended_at, run.output_tokens), (Some(second(1)), 5));
    // What is new works beside them.
    store.create_resource(&resource(ResourceKind::Agent, 1, "helper")).await.unwrap();
}
