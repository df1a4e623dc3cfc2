//! SQLite: a file in the data directory, nothing to install.
//!
//! Several programs may have it open at once (`mayfly keys` beside a running
//! server): WAL lets them read while one writes, and a writer waits its turn.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::{CopyError, OpenError, Pool, Store, StoreError};

/// Name of the database in the data directory.
pub const DATABASE_FILE: &str = "mayfly.db";

/// Held while the schema is made: SQLite has no lock of its own for that, and
/// two first starts in one directory would trip over each other.
const SCHEMA_LOCK_FILE: &str = "mayfly.db.lock";

/// How long a writer waits for another one, also for one in another program.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Readers run side by side; writers take turns whatever this number is.
const CONNECTIONS: u32 = 8;

impl Store {
    /// Opens the database in `data`, making both when they are missing, for
    /// the owner's eyes only.
    pub async fn open(data: &Path) -> Result<Store, OpenError> {
        let path = data.join(DATABASE_FILE);
        let database = path.display().to_string();
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
            .map_err(|source| OpenError::Connect { database: database.clone(), source })?;
        sqlx::migrate!("migrations/sqlite")
            .run(&pool)
            .await
            .map_err(|source| OpenError::Migrate { database, source })?;
        Ok(Store { pool: Pool::Sqlite(pool) })
    }
}

/// Writes all rows, as of one moment, into a file that must not exist yet and
/// that nobody else can read.
pub(super) async fn copy_into(pool: &SqlitePool, path: &Path) -> Result<(), CopyError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|source| CopyError::Create { path: path.to_owned(), source })?;
    let copied = sqlx::query("VACUUM INTO $1").bind(path.to_string_lossy()).execute(pool).await;
    copied.map_err(StoreError::from)?;
    Ok(())
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
