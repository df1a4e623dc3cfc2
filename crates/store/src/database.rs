//! The database itself: one of two, and how a query reaches the one there is.
//!
//! The text of a query is the same on both (`$1`, `RETURNING`, `ON CONFLICT`).
//! What Rust makes of it is not: each database has types of its own. So a query
//! is written once, inside `on!` or `transaction!`, and compiled twice. Counts
//! and times are `i64`, JSON is text, and no text holds a NUL (`without_nul`).

mod failure;
mod postgres;
mod sqlite;

use std::borrow::Cow;
use std::path::Path;

use chrono::{DateTime, Utc};
use sqlx::{PgPool, SqlitePool};

pub use self::failure::{CopyError, OpenError, StoreError};
pub use self::sqlite::DATABASE_FILE;

/// A handle to the rows. Clones share one pool of connections.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: Pool,
}

/// The connections, typed by their database.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    /// A file in the data directory.
    Sqlite(SqlitePool),
    /// A server that others may use too.
    Postgres(PgPool),
}

impl Store {
    /// Waits for the queries under way and flushes. Every clone is closed too.
    pub async fn close(&self) {
        match &self.pool {
            Pool::Sqlite(pool) => pool.close().await,
            Pool::Postgres(pool) => pool.close().await,
        }
    }

    /// Writes all rows, as of one moment, into a new SQLite file. Rows in
    /// Postgres have tools of their own for that.
    pub async fn copy_into(&self, path: &Path) -> Result<(), CopyError> {
        match &self.pool {
            Pool::Sqlite(pool) => sqlite::copy_into(pool, path).await,
            Pool::Postgres(_) => Err(CopyError::Elsewhere),
        }
    }

    /// What makes a `SELECT` in a transaction hold its rows to the end. SQLite
    /// has one writer at a time, so a transaction there holds all of them.
    pub(crate) fn for_update(&self) -> &'static str {
        match &self.pool {
            Pool::Sqlite(_) => "",
            Pool::Postgres(_) => " FOR UPDATE",
        }
    }
}

/// Runs one query: `on!(self, |pool| sqlx::query_as("…").bind(x).fetch_all(pool).await)`.
/// What the two arms give must be of one type, so `execute` is followed by
/// `.map(|done| done.rows_affected())`.
macro_rules! on {
    ($store:expr, |$pool:ident| $query:expr) => {
        match &$store.pool {
            $crate::database::Pool::Sqlite($pool) => $query,
            $crate::database::Pool::Postgres($pool) => $query,
        }
    };
}

/// Runs several queries, all of which happen or none:
/// `transaction!(self, |tx| { sqlx::query("…").execute(&mut **tx).await?; Ok::<_, StoreError>(()) })`.
/// The block is an async one: `?` leaves it and rolls back, `return` does too.
/// Its error is made from a `StoreError` when the database itself fails.
macro_rules! transaction {
    ($store:expr, |$transaction:ident| $work:block) => {
        match &$store.pool {
            // Taken at once: a reader that becomes a writer later may find the
            // database changed beneath it, and SQLite then fails without waiting.
            $crate::database::Pool::Sqlite(pool) => $crate::database::transaction!(
                @run pool, |connection| connection.begin_with("BEGIN IMMEDIATE"), $transaction, $work
            ),
            $crate::database::Pool::Postgres(pool) => $crate::database::transaction!(
                @run pool, |connection| connection.begin(), $transaction, $work
            ),
        }
    };
    (@run $pool:ident, |$connection:ident| $begin:expr, $transaction:ident, $work:block) => {
        match $pool.acquire().await {
            Err(error) => Err($crate::database::StoreError::from(error).into()),
            Ok(mut $connection) => {
                use sqlx::Connection as _;
                // A database that ended the transaction by itself, because its
                // disk is full, has none to roll back. The connection thinks
                // that it is still in one, so nobody gets it again.
                let (outcome, broken) = match $begin.await {
                    Err(error) => (Err($crate::database::StoreError::from(error).into()), false),
                    Ok(mut begun) => {
                        let $transaction = &mut begun;
                        match async { $work }.await {
                            Ok(value) => match begun.commit().await {
                                Ok(()) => (Ok(value), false),
                                Err(error) => {
                                    (Err($crate::database::StoreError::from(error).into()), true)
                                }
                            },
                            Err(error) => {
                                let broken = begun.rollback().await.is_err();
                                (Err(error), broken)
                            }
                        }
                    }
                };
                if broken {
                    $connection.close_on_drop();
                }
                outcome
            }
        }
    };
}

pub(crate) use {on, transaction};

/// A time as its column holds it.
pub(crate) fn to_column(time: DateTime<Utc>) -> i64 {
    time.timestamp_millis()
}

/// A time out of its column.
pub(crate) fn from_column(
    id: &str,
    column: &'static str,
    milliseconds: i64,
) -> Result<DateTime<Utc>, StoreError> {
    DateTime::from_timestamp_millis(milliseconds)
        .ok_or_else(|| StoreError::Damaged { id: id.to_owned(), column })
}

/// A count as its column holds it. They fit: nobody has seen 2^63 of anything.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A text that strangers wrote, as both databases take it: Postgres knows no
/// NUL in a text, so a sign for "unreadable" stands in its place.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}").into() } else { text.into() }
}
