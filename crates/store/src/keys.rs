//! API keys: made, listed, revoked, rotated, and looked up by their hash.
//!
//! A key is shown once, when it is made. It has 160 random bits, so a plain
//! SHA-256 is enough to store; nothing slower would make it harder to guess.
//! A revoked key keeps its row, so that it can never come back to life.

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use wire::Secret;

use crate::database::{Store, StoreError, from_column, on, to_column, transaction};

/// What SDKs expect a key to start with.
const PREFIX: &str = "e2b_";

const INSERT: &str = "INSERT INTO api_keys (id, team, name, hash, hint, created_at)
     VALUES ($1, $2, $3, $4, $5, $6)
     RETURNING id, team, name, hint, created_at, revoked_at";

/// Who a new key is for.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Owner of everything the key makes.
    pub team: String,
    /// What the operator calls it.
    pub name: String,
}

/// What is known of a key. The key itself is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its public name: `key_` and 12 hex digits.
    pub id: String,
    /// Owner of everything the key makes.
    pub team: String,
    /// What the operator calls it.
    pub name: String,
    /// Its first and last characters, to recognise it by.
    pub hint: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Since when it opens nothing any more.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// A key could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No such id.
    #[error("there is no API key `{0}`")]
    NotFound(String),
    /// A revoked key stays revoked.
    #[error("API key `{0}` was revoked; make a new one")]
    Revoked(String),
    /// The operator's own key is not fit to be one.
    #[error("an API key is 8 to 200 visible ASCII characters, best `e2b_` and 40 hex digits")]
    Malformed,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Makes a key. The secret is in the answer and nowhere else.
    pub async fn create_key(&self, new: NewKey) -> Result<(ApiKey, Secret<String>), KeyError> {
        let secret = random_key();
        let key = self.insert_key(&secret, &new).await?;
        Ok((key, secret))
    }

    /// Takes a key the operator chose; does nothing when it is there already.
    pub async fn import_key(&self, key: &Secret<String>, new: NewKey) -> Result<ApiKey, KeyError> {
        let text = key.expose();
        if !(8..=200).contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(KeyError::Malformed);
        }
        // The insert is tried first, so that two starts at once agree on one row.
        match self.insert_key(key, &new).await {
            Ok(made) => Ok(made),
            Err(err) if err.is_taken() => match self.key_by_hash(text).await? {
                Some(known) if known.revoked_at.is_some() => Err(KeyError::Revoked(known.id)),
                Some(known) => Ok(known),
                None => Err(err.into()),
            },
            Err(err) => Err(err.into()),
        }
    }

    /// Every key, revoked ones too, oldest first.
    pub async fn list_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let rows: Vec<KeyRow> = on!(self, |pool| sqlx::query_as(
            "SELECT id, team, name, hint, created_at, revoked_at FROM api_keys
             ORDER BY created_at, id",
        )
        .fetch_all(pool)
        .await)?;
        rows.into_iter().map(KeyRow::into_key).collect()
    }

    /// Makes the key open nothing from now on. Revoking twice keeps the first time.
    pub async fn revoke_key(&self, id: &str) -> Result<ApiKey, KeyError> {
        let row: Option<KeyRow> = on!(self, |pool| sqlx::query_as(
            "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1
             RETURNING id, team, name, hint, created_at, revoked_at",
        )
        .bind(id)
        .bind(to_column(Utc::now()))
        .fetch_optional(pool)
        .await)
        .map_err(StoreError::from)?;
        let row = row.ok_or_else(|| KeyError::NotFound(id.to_owned()))?;
        Ok(row.into_key()?)
    }

    /// Makes a new key for the same team and name and revokes the old one:
    /// both or neither.
    pub async fn rotate_key(&self, id: &str) -> Result<(ApiKey, Secret<String>), KeyError> {
        let now = to_column(Utc::now());
        let secret = random_key();
        // The one that finds the key unrevoked has it to itself, so that of two
        // rotations at once one comes too late.
        let made: Option<KeyRow> = transaction!(self, |tx| {
            let old: Option<(String, String)> = sqlx::query_as(
                "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL
                 RETURNING team, name",
            )
            .bind(id)
            .bind(now)
            .fetch_optional(&mut **tx)
            .await?;
            let made = match old {
                None => None,
                Some((team, name)) => {
                    let made: KeyRow = sqlx::query_as(INSERT)
                        .bind(random_id())
                        .bind(team)
                        .bind(name)
                        .bind(hash(secret.expose()))
                        .bind(hint(secret.expose()))
                        .bind(now)
                        .fetch_one(&mut **tx)
                        .await?;
                    Some(made)
                }
            };
            Ok::<_, StoreError>(made)
        })?;
        match made {
            Some(made) => Ok((made.into_key()?, secret)),
            None => Err(self.why_not_rotated(id).await?),
        }
    }

    /// The team a key belongs to, if the key is known and not revoked. The
    /// look-up goes by hash, so its timing tells nothing about a stored key.
    pub async fn team_of(&self, key: &str) -> Result<Option<String>, StoreError> {
        let team = on!(self, |pool| sqlx::query_scalar(
            "SELECT team FROM api_keys WHERE hash = $1 AND revoked_at IS NULL",
        )
        .bind(hash(key))
        .fetch_optional(pool)
        .await)?;
        Ok(team)
    }

    /// Whether any key opens anything.
    pub async fn has_live_key(&self) -> Result<bool, StoreError> {
        let live = on!(self, |pool| sqlx::query(
            "SELECT 1 FROM api_keys WHERE revoked_at IS NULL LIMIT 1"
        )
        .fetch_optional(pool)
        .await
        .map(|row| row.is_some()))?;
        Ok(live)
    }

    async fn insert_key(
        &self,
        secret: &Secret<String>,
        new: &NewKey,
    ) -> Result<ApiKey, StoreError> {
        let row: KeyRow = on!(self, |pool| sqlx::query_as(INSERT)
            .bind(random_id())
            .bind(&new.team)
            .bind(&new.name)
            .bind(hash(secret.expose()))
            .bind(hint(secret.expose()))
            .bind(to_column(Utc::now()))
            .fetch_one(pool)
            .await)?;
        row.into_key()
    }

    async fn key_by_hash(&self, key: &str) -> Result<Option<ApiKey>, StoreError> {
        let row: Option<KeyRow> = on!(self, |pool| sqlx::query_as(
            "SELECT id, team, name, hint, created_at, revoked_at FROM api_keys WHERE hash = $1",
        )
        .bind(hash(key))
        .fetch_optional(pool)
        .await)?;
        row.map(KeyRow::into_key).transpose()
    }

    async fn why_not_rotated(&self, id: &str) -> Result<KeyError, StoreError> {
        let known = on!(self, |pool| sqlx::query("SELECT 1 FROM api_keys WHERE id = $1")
            .bind(id)
            .fetch_optional(pool)
            .await
            .map(|row| row.is_some()))?;
        let id = id.to_owned();
        Ok(if known { KeyError::Revoked(id) } else { KeyError::NotFound(id) })
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct KeyRow {
    id: String,
    team: String,
    name: String,
    hint: String,
    created_at: i64,
    revoked_at: Option<i64>,
}

impl KeyRow {
    fn into_key(self) -> Result<ApiKey, StoreError> {
        let created_at = from_column(&self.id, "created_at", self.created_at)?;
        let revoked_at =
            self.revoked_at.map(|at| from_column(&self.id, "revoked_at", at)).transpose()?;
        let KeyRow { id, team, name, hint, .. } = self;
        Ok(ApiKey { id, team, name, hint, created_at, revoked_at })
    }
}

fn random_id() -> String {
    format!("key_{}", wire::hex(&rand::random::<[u8; 6]>()))
}

fn random_key() -> Secret<String> {
    Secret::new(format!("{PREFIX}{}", wire::hex(&rand::random::<[u8; 20]>())))
}

fn hash(key: &str) -> Vec<u8> {
    Sha256::digest(key.as_bytes()).to_vec()
}

/// What a list may show. Of a short key (an operator's own) it shows so little
/// that guessing the rest stays as hard as the key allows.
fn hint(key: &str) -> String {
    let (start, end) = if key.len() >= 24 { (8, 4) } else { (4, 0) };
    let first: String = key.chars().take(start).collect();
    let skipped = key.chars().count().saturating_sub(end);
    let last: String = key.chars().skip(skipped).collect();
    format!("{first}…{last}")
}

#[cfg(test)]
mod tests {
    use super::{hint, random_key};

    #[test]
    fn a_key_is_a_prefix_and_forty_lowercase_hex_digits() {
        let key = random_key();
        let digits = key.expose().strip_prefix("e2b_").unwrap();
        assert_eq!(digits.len(), 40);
        assert!(digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
        assert_ne!(key.expose(), random_key().expose());
    }

    #[test]
    fn a_hint_shows_little_and_of_a_short_key_less() {
        assert_eq!(hint("e2b_0123456789abcdef0123456789abcdef01234567"), "e2b_0123…4567");
        assert_eq!(hint("hunter22"), "hunt…");
    }
}
