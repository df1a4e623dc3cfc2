//! The database itself: where it lies, how it is opened, how it fails.
//!
//! Several programs may have it open at once (`mayfly keys` beside a running
//! server): WAL lets them read while one writes, and a writer waits its turn.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

/// Name of the database in the data directory.
pub const DATABASE_FILE: &str = "mayfly.db";

/// Held while the schema is made: SQLite has no lock of its own for that, and
/// two first starts in one directory would trip over each other.
const SCHEMA_LOCK_FILE: &str = "mayfly.db.lock";

/// How long a writer waits for another one, also for one in another program.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Readers run side by side; writers take turns whatever this number is.
const CONNECTIONS: u32 = 8;

/// A handle to the rows. Clones share one pool of connections.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: SqlitePool,
}

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
    /// The file is there, but is not a database we can use.
    #[error("cannot open the database `{path}`")]
    Connect {
        /// The database.
        path: PathBuf,
        /// Why not.
        source: sqlx::Error,
    },
    /// The schema is newer than this program, or damaged.
    #[error("cannot bring the database `{path}` up to date")]
    Migrate {
        /// The database.
        path: PathBuf,
        /// Why not.
        source: MigrateError,
    },
}

/// A query failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused or did not answer.
    #[error("the database did not answer")]
    Database(#[from] sqlx::Error),
    /// Something else than this program wrote the row.
    #[error("column `{column}` of row `{id}` is damaged")]
    Damaged {
        /// The row's id.
        id: String,
        /// The column that does not read.
        column: &'static str,
    },
}

impl Store {
    /// Opens the database in `data`, making both when they are missing, for
    /// the owner's eyes only.
    pub async fn open(data: &Path) -> Result<Store, OpenError> {
        let path = data.join(DATABASE_FILE);
        make_directory(data)?;
        make_private_file(&path)?;
        let _lock = lock(data.join(SCHEMA_LOCK_FILE)).await?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .journal_mode(SqliteJournalMode::Wal)
            // A crash of the machine may lose the last writes, never the file.
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true);
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .connect_with(options)
            .await
            .map_err(|source| OpenError::Connect { path: path.clone(), source })?;
        sqlx::migrate!("migrations/sqlite")
            .run(&pool)
            .await
            .map_err(|source| OpenError::Migrate { path, source })?;
        Ok(Store { pool })
    }

    /// Waits for the queries under way and flushes. Every clone is closed too.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

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

fn make_directory(data: &Path) -> Result<(), OpenError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|source| OpenError::Create { path: data.to_owned(), source })
}

/// SQLite would make the file readable to all; its `-wal` and `-shm` files
/// take their mode from it. A file that exists is not touched: to open and
/// close it would drop the locks another `Store` of this process holds on it.
fn make_private_file(path: &Path) -> Result<(), OpenError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(OpenError::Create { path: path.to_owned(), source }),
    }
}

/// Waits until no other opener holds the lock; dropping the file frees it.
async fn lock(path: PathBuf) -> Result<File, OpenError> {
    let failed = path.clone();
    let locking = tokio::task::spawn_blocking(move || {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.lock()?;
        Ok(file)
    });
    locking
        .await
        .unwrap_or_else(|panic| Err(io::Error::other(panic)))
        .map_err(|source| OpenError::Create { path: failed, source })
}
