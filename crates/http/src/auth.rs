//! API keys at the door: which team does this request speak for?

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    extract::{FromRef, FromRequestParts},
    http::{HeaderMap, header::AUTHORIZATION, request::Parts},
};
use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use wire::Code;

use crate::Fault;

/// A revoked key is refused after at most this long.
const FRESH: Duration = Duration::from_secs(1);
/// The cache is emptied when it grows past this.
const CACHED: usize = 1024;

/// The owner of a key, and so of what it makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Team(pub String);

/// The team that a request's API key speaks for. A route that takes this cannot
/// be reached without a key.
pub struct Caller(pub Team);

impl<S> FromRequestParts<S> for Caller
where
    S: Send + Sync,
    Keys: FromRef<S>,
{
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Caller, Fault> {
        Keys::from_ref(state).team(&parts.headers).await.map(Caller)
    }
}

type Failure = Box<dyn Error + Send + Sync>;
type Lookup = dyn Fn(String) -> BoxFuture<'static, Result<Option<Team>, Failure>> + Send + Sync;

/// Teams by the hash of their key, and when that was looked up.
type Cache = HashMap<[u8; 32], (Team, Instant)>;

/// Checks API keys. Where keys are kept is not known here.
#[derive(Clone)]
pub struct Keys {
    lookup: Option<Arc<Lookup>>,
    cache: Arc<Mutex<Cache>>,
}

impl Keys {
    /// Asks `lookup` for the team of a key.
    pub fn new<F>(lookup: F) -> Keys
    where
        F: Fn(String) -> BoxFuture<'static, Result<Option<Team>, Failure>> + Send + Sync + 'static,
    {
        Keys { lookup: Some(Arc::new(lookup)), cache: Arc::default() }
    }

    /// Lets everybody in as one team: `--insecure`.
    pub fn open_door() -> Keys {
        Keys { lookup: None, cache: Arc::default() }
    }

    /// The team a request speaks for, by `X-API-Key` or `Authorization: Bearer`.
    pub async fn team(&self, headers: &HeaderMap) -> Result<Team, Fault> {
        let Some(lookup) = &self.lookup else {
            return Ok(Team("default".to_owned()));
        };
        let refused = |message| Fault::new(Code::Unauthenticated, message);
        let key = key_in(headers).ok_or_else(|| {
            refused("no API key: send it as `X-API-Key` or `Authorization: Bearer`")
        })?;
        // Cached by hash, so that a dump of our memory shows no more keys than needed.
        let hash: [u8; 32] = Sha256::digest(key).into();
        if let Some(team) = self.cached(&hash) {
            return Ok(team);
        }
        let found = lookup(key.to_owned()).await;
        let found = found
            .map_err(|err| Fault::new(Code::Internal, "cannot check the API key").caused_by(err))?;
        let team = found.ok_or_else(|| refused("the API key is not known or was revoked"))?;
        self.remember(hash, team.clone());
        Ok(team)
    }

    fn cached(&self, hash: &[u8; 32]) -> Option<Team> {
        let cache = self.cache.lock().ok()?;
        let (team, since) = cache.get(hash)?;
        (since.elapsed() < FRESH).then(|| team.clone())
    }

    fn remember(&self, hash: [u8; 32], team: Team) {
        if let Ok(mut cache) = self.cache.lock() {
            if cache.len() >= CACHED {
                cache.clear();
            }
            cache.insert(hash, (team, Instant::now()));
        }
    }
}

fn key_in(headers: &HeaderMap) -> Option<&str> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    header("x-api-key").or_else(|| {
        let (scheme, key) = header(AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::{Keys, Team};

    fn keys() -> Keys {
        Keys::new(|key| {
            Box::pin(async move { Ok((key == "e2b_1").then(|| Team("red".to_owned()))) })
        })
    }

    async fn check(name: &'static str, value: &'static str, expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        let team = keys().team(&headers).await.ok().map(|team| team.0);
        assert_eq!(team.as_deref(), expected, "{name}: {value}");
    }

    #[tokio::test]
    async fn a_key_is_read_from_either_header() {
        check("x-api-key", "e2b_1", Some("red")).await;
        check("authorization", "Bearer e2b_1", Some("red")).await;
        check("authorization", "bearer e2b_1", Some("red")).await;
        check("authorization", "Basic e2b_1", None).await;
        check("x-api-key", "e2b_2", None).await;
        check("x-other", "e2b_1", None).await;
    }

    #[tokio::test]
    async fn a_second_look_is_answered_from_the_cache() {
        let keys = keys();
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_static("e2b_1"));
        keys.team(&headers).await.unwrap();
        assert_eq!(keys.cache.lock().unwrap().len(), 1);
        assert!(keys.team(&headers).await.is_ok());
    }
}
