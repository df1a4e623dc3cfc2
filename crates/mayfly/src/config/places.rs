//! Addresses that settings name: databases, object stores, other servers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use wire::Secret;

/// A PostgreSQL database. It may have a password in it, so nothing shows it.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseUrl(pub(crate) Secret<String>);

/// A bucket of an S3 server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobsUrl(pub(crate) String);

/// Where a server is, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerUrl(pub(crate) String);

/// An address that is told of something. It often has a key in it, so nothing
/// shows it.
#[derive(Clone, Debug)]
pub(crate) struct HookUrl(pub(crate) Secret<String>);

/// The text is no such address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadPlace {
    #[error("give a database as postgres://user:password@host/name")]
    Database,
    #[error("give a bucket as s3://bucket/prefix?endpoint=http://host:port&region=name")]
    Blobs,
    #[error("give an address as http://host:port, without query or user")]
    Server,
    #[error("give an address as https://host/path")]
    Hook,
}

impl FromStr for DatabaseUrl {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<DatabaseUrl, BadPlace> {
        let known = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
        known.then(|| DatabaseUrl(Secret::new(text.to_owned()))).ok_or(BadPlace::Database)
    }
}

impl FromStr for BlobsUrl {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<BlobsUrl, BadPlace> {
        let bucket = text.strip_prefix("s3://").and_then(|rest| rest.split(['/', '?']).next());
        let named = bucket.is_some_and(|bucket| !bucket.is_empty());
        named.then(|| BlobsUrl(text.to_owned())).ok_or(BadPlace::Blobs)
    }
}

impl FromStr for ServerUrl {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<ServerUrl, BadPlace> {
        let url = reqwest::Url::parse(text).map_err(|_| BadPlace::Server)?;
        let plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !plain {
            return Err(BadPlace::Server);
        }
        Ok(ServerUrl(url.as_str().trim_end_matches('/').to_owned()))
    }
}

impl FromStr for HookUrl {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<HookUrl, BadPlace> {
        let url = reqwest::Url::parse(text).map_err(|_| BadPlace::Hook)?;
        let known = matches!(url.scheme(), "http" | "https") && url.has_host();
        known.then(|| HookUrl(Secret::new(url.into()))).ok_or(BadPlace::Hook)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A setting of the file that is written as it would be on the command line.
pub(super) fn from_text<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::{BlobsUrl, DatabaseUrl, HookUrl, ServerUrl};

    #[test]
    fn a_server_is_named_by_its_plain_address() {
        let parse = |text: &str| text.parse::<ServerUrl>().ok().map(|url| url.0);
        assert_eq!(parse("http://127.0.0.1:3000/").as_deref(), Some("http://127.0.0.1:3000"));
        assert_eq!(parse("https://x.test/below/").as_deref(), Some("https://x.test/below"));
        for bad in ["", "x.test", "ftp://x", "http://", "http://u:p@x", "http://x?a", "http://x#a"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_hook_may_have_a_key_and_does_not_show_it() {
        let hook: HookUrl = "https://h/x?key=sesame".parse().unwrap();
        assert!(!format!("{hook:?}").contains("sesame"));
        for bad in ["", "h/x", "ftp://h/x", "https://"] {
            assert!(bad.parse::<HookUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn databases_and_buckets_are_known_by_their_scheme_and_passwords_stay_hidden() {
        let database: DatabaseUrl = "postgres://me:sesame@db/mayfly".parse().unwrap();
        assert!(!format!("{database:?}").contains("sesame"));
        assert!("mysql://db".parse::<DatabaseUrl>().is_err());
        assert!("s3://bucket/prefix?region=eu".parse::<BlobsUrl>().is_ok());
        for bad in ["s3://", "s3:///x", "bucket", "http://bucket"] {
            assert!(bad.parse::<BlobsUrl>().is_err(), "{bad}");
        }
    }
}
