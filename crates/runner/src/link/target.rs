//! Where an upstream is: an absolute http or https URL.

use std::fmt;

use reqwest::Url;
use serde::{Deserialize, Serialize};

/// The address of an upstream. `Debug` shows its origin only: paths and queries
/// of such addresses are often signatures.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Target(Url);

/// The text is not the address of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not an absolute http or https URL")]
pub struct BadTarget;

impl Target {
    /// Reads an absolute address.
    pub(super) fn parse(text: &str) -> Result<Target, BadTarget> {
        Target::checked(Url::parse(text).map_err(|_| BadTarget)?)
    }

    /// Reads an address that may be relative to this one.
    pub(super) fn join(&self, text: &str) -> Result<Target, BadTarget> {
        Target::checked(self.0.join(text).map_err(|_| BadTarget)?)
    }

    /// The address `rest` below this one, and `query` beside its own. `rest` is
    /// empty or begins with a slash, and has been checked by `route`.
    pub(super) fn below(&self, rest: &str, query: Option<&str>) -> Target {
        let mut url = self.0.clone();
        if !rest.is_empty() {
            let path = format!("{}{rest}", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        let both = match (url.query(), query) {
            (Some(own), Some(more)) => Some(format!("{own}&{more}")),
            (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
            (None, None) => None,
        };
        url.set_query(both.as_deref());
        Target(url)
    }

    /// Whether `path` is the end of this address's own path.
    pub(super) fn ends_with(&self, path: &str) -> bool {
        self.0.path().trim_end_matches('/').ends_with(path)
    }

    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    fn checked(mut url: Url) -> Result<Target, BadTarget> {
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(BadTarget);
        }
        url.set_fragment(None);
        Ok(Target(url))
    }
}

impl TryFrom<String> for Target {
    type Error = BadTarget;

    fn try_from(text: String) -> Result<Target, BadTarget> {
        Target::parse(&text)
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.0.into()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/…", self.0.origin().ascii_serialization())
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[track_caller]
    fn check_below(base: &str, rest: &str, query: Option<&str>, expected: &str) {
        let target = Target::parse(base).unwrap();
        assert_eq!(target.below(rest, query).url().as_str(), expected);
    }

    #[test]
    fn what_is_below_keeps_path_and_query_of_both() {
        check_below("http://h/base", "/a/b", None, "http://h/base/a/b");
        check_below("http://h/base/", "/a", Some("q=1"), "http://h/base/a?q=1");
        check_below("http://h", "/a%20b", None, "http://h/a%20b");
        check_below("http://h/x?key=1#part", "", Some("q=2"), "http://h/x?key=1&q=2");
        check_below("http://h/x?sig=a%2Fb", "", None, "http://h/x?sig=a%2Fb");
    }

    #[test]
    fn other_schemes_and_relative_addresses_are_refused() {
        for bad in ["", "/x", "ftp://h/", "file:///etc/passwd", "unix:/s", "http://", "data:,x"] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
        let agent = Target::parse("https://h/api/sandbox/7").unwrap();
        let joined = agent.join("/bags/c.zip?sig=1").unwrap();
        assert_eq!(joined.url().as_str(), "https://h/bags/c.zip?sig=1");
        assert!(agent.join("file:///etc/passwd").is_err());
    }

    #[test]
    fn a_signature_is_not_in_what_debug_prints() {
        let target = Target::parse("https://user:pass@h:1/bags/x.zip?sig=secret").unwrap();
        assert_eq!(format!("{target:?}"), "https://h:1/…");
    }
}
