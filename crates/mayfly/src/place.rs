//! Where a server's rows are: in its data directory, or in a database elsewhere.

use std::path::PathBuf;

use store::{DATABASE_FILE, OpenError, Store};

use crate::config::DatabaseUrl;

/// A data directory, and the database that goes with it.
pub(crate) struct Place {
    pub(crate) data: PathBuf,
    pub(crate) database: Option<DatabaseUrl>,
}

impl Place {
    /// Opens the rows; those of a data directory are made when they are missing.
    pub(crate) async fn open(&self) -> Result<Store, OpenError> {
        match &self.database {
            Some(url) => Store::connect(&url.0).await,
            None => Store::open(&self.data).await,
        }
    }

    /// Whether there are rows, as far as can be told without opening them.
    pub(crate) fn is_there(&self) -> bool {
        self.database.is_some() || self.data.join(DATABASE_FILE).exists()
    }
}
