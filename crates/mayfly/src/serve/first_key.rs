//! The key a fresh server starts with: nobody should have to look up how to
//! make one before the first request.

use store::{KeyError, NewKey, Store};
use wire::Secret;

use crate::config::Access;

/// What a person at the terminal has to know about keys.
pub(super) enum FirstKey {
    /// Made just now; nobody can show it again.
    Made(Secret<String>),
    /// The operator chose it.
    Given(Secret<String>),
    /// There are keys; only their hashes are known.
    Stored,
    /// No key is asked for.
    NotNeeded,
}

/// Makes sure that there is a key that opens the server, unless none is asked for.
pub(super) async fn ensure(store: &Store, access: &Access) -> Result<FirstKey, KeyError> {
    let new = |name: &str| NewKey { team: "default".to_owned(), name: name.to_owned() };
    match access {
        Access::Insecure => Ok(FirstKey::NotNeeded),
        Access::Keys { given: Some(key) } => {
            store.import_key(key, new("MAYFLY_API_KEY")).await?;
            Ok(FirstKey::Given(key.clone()))
        }
        Access::Keys { given: None } if store.has_live_key().await? => Ok(FirstKey::Stored),
        Access::Keys { given: None } => {
            let (_, key) = store.create_key(new("first start")).await?;
            Ok(FirstKey::Made(key))
        }
    }
}
