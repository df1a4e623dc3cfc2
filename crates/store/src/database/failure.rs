//! How a database fails: at its opening, and at a query.
//!
//! Two failures of a query are nobody's mistake and are told apart, because the
//! caller can do something about them: too much at once, and no space left.

use std::io;
use std::path::PathBuf;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

/// The store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or a file in it cannot be made.
    #[error("cannot make `{path}`")]
    Create {
        /// What was to be made.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The address of a database server does not read. It is not repeated: it
    /// may hold a password.
    #[error("the address of the database is not like `postgres://user@host/database`")]
    Address,
    /// The database is not there, or is not one we can use.
    #[error("cannot open the database `{database}`")]
    Connect {
        /// The database's path or address, without its password.
        database: String,
        /// Why not.
        source: sqlx::Error,
    },
    /// The schema is newer than this program, or damaged.
    #[error("cannot bring the database `{database}` up to date")]
    Migrate {
        /// The database's path or address, without its password.
        database: String,
        /// Why not.
        source: MigrateError,
    },
}

/// The rows could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// They are in a server of their own.
    #[error("the rows are in PostgreSQL; save them with `pg_dump`")]
    Elsewhere,
    /// The new file cannot be made.
    #[error("cannot make `{path}`")]
    Create {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A query failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Others hold what the query needs, or the server is away for a moment.
    #[error("the database is busy; try again")]
    Busy,
    /// There is no space for the row.
    #[error("the disk of the database is full")]
    Full,
    /// The database refused or did not answer.
    #[error("the database did not answer")]
    Database(#[source] sqlx::Error),
    /// Something else than this program wrote the row.
    #[error("column `{column}` of row `{id}` is damaged")]
    Damaged {
        /// The row's id.
        id: String,
        /// The column that does not read.
        column: &'static str,
    },
}

impl StoreError {
    /// Whether a row with the same key is there already.
    pub(crate) fn is_taken(&self) -> bool {
        match self {
            StoreError::Database(sqlx::Error::Database(error)) => error.is_unique_violation(),
            StoreError::Database(_)
            | StoreError::Busy
            | StoreError::Full
            | StoreError::Damaged { .. } => false,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        let kind = if let sqlx::Error::Database(refusal) = &error {
            kind_of(refusal.as_ref())
        } else if let sqlx::Error::Io(failure) = &error {
            kind_of_io(failure)
        } else if matches!(error, sqlx::Error::PoolTimedOut) {
            Kind::Busy
        } else {
            Kind::Other
        };
        match kind {
            Kind::Busy => StoreError::Busy,
            Kind::Full => StoreError::Full,
            Kind::Other => StoreError::Database(error),
        }
    }
}

/// What a caller can do about a failure: wait, make space, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Busy,
    Full,
    Other,
}

fn kind_of(error: &(dyn DatabaseError + 'static)) -> Kind {
    let code = error.code().unwrap_or_default();
    if error.try_downcast_ref::<SqliteError>().is_some() {
        return code.parse().map_or(Kind::Other, kind_of_sqlite);
    }
    if error.try_downcast_ref::<PgDatabaseError>().is_some() {
        return kind_of_postgres(&code);
    }
    Kind::Other
}

/// The low byte is the result code, the rest says more of it.
/// <https://www.sqlite.org/rescode.html>
fn kind_of_sqlite(code: u32) -> Kind {
    match code & 0xff {
        5 | 6 => Kind::Busy,
        13 => Kind::Full,
        _ => Kind::Other,
    }
}

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
fn kind_of_postgres(code: &str) -> Kind {
    match code {
        // Too many connections; a lock that is not to be had; a deadlock or a
        // conflict that another transaction won; a server that stops or starts.
        "53300" | "55P03" | "40P01" | "40001" | "57P01" | "57P02" | "57P03" => Kind::Busy,
        "53100" => Kind::Full,
        _ => Kind::Other,
    }
}

/// A server that cannot be reached is one that restarts, more often than not.
/// Its socket on this machine goes away with it.
fn kind_of_io(error: &io::Error) -> Kind {
    const AWAY: [io::ErrorKind; 7] = [
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::NotFound,
        io::ErrorKind::TimedOut,
    ];
    if AWAY.contains(&error.kind()) { Kind::Busy } else { Kind::Other }
}

#[cfg(test)]
mod tests {
    use super::{Kind, StoreError, kind_of_postgres, kind_of_sqlite};

    #[test]
    fn the_codes_of_both_databases_say_what_can_be_done() {
        // SQLITE_BUSY, SQLITE_LOCKED, SQLITE_BUSY_SNAPSHOT, SQLITE_FULL, SQLITE_CONSTRAINT.
        let sqlite = [5, 6, 517, 13, 19].map(kind_of_sqlite);
        assert_eq!(sqlite, [Kind::Busy, Kind::Busy, Kind::Busy, Kind::Full, Kind::Other]);
        let postgres = ["53300", "55P03", "53100", "23505"].map(kind_of_postgres);
        assert_eq!(postgres, [Kind::Busy, Kind::Busy, Kind::Full, Kind::Other]);
    }

    #[test]
    fn a_pool_without_a_free_connection_is_busy() {
        let error = StoreError::from(sqlx::Error::PoolTimedOut);
        assert_eq!(error.to_string(), "the database is busy; try again");
    }
}
