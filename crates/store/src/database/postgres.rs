//! PostgreSQL: a server of the operator's, reached by an address.
//!
//! Several servers of ours may share it. The migrator holds an advisory lock of
//! the database while it works, so that they may also start at once.

use std::io;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};
use wire::Secret;

use super::{OpenError, Pool, Store};

/// What one of our servers takes of the hundred that PostgreSQL gives by default.
const CONNECTIONS: u32 = 16;

/// How long a query waits for a free connection before it is told to come again.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that was idle for longer is asked first whether it still is one.
/// The others are not: the question would double what each query takes.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

impl Store {
    /// Connects to the database at `postgres://…` and brings its schema up to
    /// date. The database itself must be there.
    pub async fn connect(address: &Secret<String>) -> Result<Store, OpenError> {
        let options: PgConnectOptions = address.expose().parse().map_err(|_| OpenError::Address)?;
        let options = options.application_name("mayfly");
        let database = name(&options);
        let connect_error = |source| OpenError::Connect { database: database.clone(), source };
        // The first connection is not one of the pool's, which would try for
        // seconds and then not say why there is none.
        let mut first = connect_once(&options).await.map_err(connect_error)?;
        sqlx::migrate!("migrations/postgres")
            .run(&mut first)
            .await
            .map_err(|source| OpenError::Migrate { database: database.clone(), source })?;
        first.close().await.map_err(connect_error)?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|connection, metadata| {
                Box::pin(async move {
                    let trusted = metadata.idle_for <= TRUSTED_IDLE;
                    Ok(trusted || connection.ping().await.is_ok())
                })
            })
            .connect_lazy_with(options);
        Ok(Store { pool: Pool::Postgres(pool) })
    }
}

async fn connect_once(options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    let connecting = tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect());
    connecting.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// The address without user and password, for messages.
fn name(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_default();
    match options.get_socket() {
        Some(socket) => format!("postgres://{}/{database}", socket.display()),
        None => {
            format!("postgres://{}:{}/{database}", options.get_host(), options.get_port())
        }
    }
}
