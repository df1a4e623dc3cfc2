//! Every database passes the one contract; what only SQLite promises is in
//! `sqlite`, what only PostgreSQL does is in `postgres`.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

/// Runs each case on both databases, on a store of its own. The second field of
/// what `fresh` gives keeps the store's rows until the case is done.
macro_rules! contract {
    ([$($case:ident),+ $(,)?]) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let (store, _files) = crate::sqlite::fresh().await;
                    super::$case(store).await;
                }
            )+
        }

        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let Some((store, _database)) = crate::postgres::fresh().await else { return };
                    super::$case(store).await;
                }
            )+
        }
    };
}

mod blobs;
mod conversations;
mod executions;
mod failures;
mod files;
mod keys;
mod postgres;
mod resources;
mod rows;
mod runs;
mod sandboxes;
mod secrets;
mod sessions;
mod sqlite;
mod streams;
mod time;
mod turns;
mod upgrade;
