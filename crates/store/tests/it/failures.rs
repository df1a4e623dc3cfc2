//! Failures that a caller can do something about are told apart, on both
//! databases.

use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use std::time::Duration;
use store::StoreError;

use crate::keys::new_key;

#[tokio::test]
async fn a_locked_sqlite_database_is_busy() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new()
        .filename(directory.path().join("rows.db"))
        .create_if_missing(true)
        .busy_timeout(Duration::ZERO);
    let mut one = options.connect().await.unwrap();
    let mut two = options.connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut one).await.unwrap();
    let refused = sqlx::query("BEGIN IMMEDIATE").execute(&mut two).await.unwrap_err();
    assert!(matches!(StoreError::from(refused), StoreError::Busy));
}

#[tokio::test]
async fn a_sqlite_database_that_cannot_grow_is_full() {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let fill = "PRAGMA max_page_count = 3; CREATE TABLE heap (bytes BLOB);
                INSERT INTO heap VALUES (zeroblob(100000))";
    let refused = sqlx::raw_sql(fill).execute(&mut connection).await.unwrap_err();
    assert!(matches!(StoreError::from(refused), StoreError::Full));
}

#[tokio::test]
async fn the_codes_of_postgres_are_understood() {
    let Some(database) = crate::postgres::empty() else { return };
    let mut connection = PgConnection::connect(database.address().expose()).await.unwrap();
    for (code, message) in [
        ("53300", "the database is busy; try again"),
        ("55P03", "the database is busy; try again"),
        ("53100", "the disk of the database is full"),
        ("XX000", "the database did not answer"),
    ] {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{code}'; END $$");
        let raise = sqlx::raw_sql(sqlx::AssertSqlSafe(raise));
        let raised = raise.execute(&mut connection).await.unwrap_err();
        assert_eq!(StoreError::from(raised).to_string(), message, "{code}");
    }
}

#[tokio::test]
async fn a_postgres_that_hung_up_is_busy_and_then_reached_again() {
    let Some((store, database)) = crate::postgres::fresh().await else { return };
    let (_, secret) = store.create_key(new_key("red")).await.unwrap();
    let mut other = PgConnection::connect(database.address().expose()).await.unwrap();
    let hang_up = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
    sqlx::query(hang_up).execute(&mut other).await.unwrap();
    // Each connection of the pool may fail once.
    for _ in 0..=16 {
        match store.team_of(secret.expose()).await {
            Ok(team) => {
                assert_eq!(team.as_deref(), Some("red"));
                return;
            }
            Err(error) => assert!(matches!(error, StoreError::Busy), "{error:?}"),
        }
    }
    panic!("the store never came back");
}
