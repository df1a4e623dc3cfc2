//! Web pages of other origins that may call this server.

use std::str::FromStr;

use axum::http::HeaderValue;
use serde::Deserialize;

/// Where a page comes from, as a browser says it in `Origin`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum WebOrigin {
    /// From anywhere.
    Any,
    /// From there.
    One(HeaderValue),
}

/// The text is no origin.
#[derive(Debug, thiserror::Error)]
#[error("give an origin as https://host or http://host:port, or `*` for all")]
pub(crate) struct BadOrigin;

impl FromStr for WebOrigin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<WebOrigin, BadOrigin> {
        if text == "*" {
            return Ok(WebOrigin::Any);
        }
        let url = reqwest::Url::parse(text).map_err(|_| BadOrigin)?;
        let origin = url.origin().ascii_serialization();
        // Anything behind the port would never be equal to what a browser sends.
        let plain =
            matches!(url.scheme(), "http" | "https") && text.trim_end_matches('/') == origin;
        if !plain {
            return Err(BadOrigin);
        }
        HeaderValue::from_str(&origin).map(WebOrigin::One).map_err(|_| BadOrigin)
    }
}

impl TryFrom<String> for WebOrigin {
    type Error = BadOrigin;

    fn try_from(text: String) -> Result<WebOrigin, BadOrigin> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::WebOrigin;

    #[test]
    fn an_origin_is_written_as_a_browser_sends_it() {
        let parse = |text: &str| text.parse::<WebOrigin>().ok();
        assert_eq!(parse("*"), Some(WebOrigin::Any));
        for good in ["http://localhost:5173", "https://x.test", "http://127.0.0.1:3000/"] {
            let origin = good.trim_end_matches('/').parse().unwrap();
            assert_eq!(parse(good), Some(WebOrigin::One(origin)), "{good}");
        }
        for bad in
            ["", "x.test", "https://x.test/a", "https://u@x.test", "ftp://x", "null", "https://X"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
