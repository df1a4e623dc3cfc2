//! What a call's headers say beside its messages.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use wire::{Code, ConnectError};

use crate::output::{Begin, Unread};

/// Silence after which a stream shows that it is alive.
const KEEPALIVE: Duration = Duration::from_secs(90);

/// The headers of a call, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// How long the call may take.
    pub(crate) timeout: Option<Duration>,
    /// How often a silent stream wants to hear from us.
    pub(crate) keepalive: Duration,
    /// Who should run the command.
    pub(crate) user: Option<String>,
    /// Where the host wants a stream to begin.
    pub(crate) begin: Begin,
    /// What the host wants done with output that nobody reads.
    pub(crate) unread: Unread,
}

impl Metadata {
    pub(crate) fn read(headers: &HeaderMap) -> Result<Metadata, ConnectError> {
        Ok(Metadata {
            timeout: timeout(headers.get("connect-timeout-ms"))?,
            keepalive: keepalive(headers.get("keepalive-ping-interval")),
            user: user(headers.get(header::AUTHORIZATION))?,
            begin: begin(headers.get("mayfly-after"))?,
            unread: match headers.get("mayfly-hold") {
                Some(_) => Unread::Held,
                None => Unread::Dropped,
            },
        })
    }
}

/// Zero means no limit, as both SDKs mean it.
fn timeout(value: Option<&HeaderValue>) -> Result<Option<Duration>, ConnectError> {
    let Some(value) = value else { return Ok(None) };
    // Connect allows ten digits, which also keeps clocks from overflowing.
    let number = number(value).filter(|_| value.len() <= 10).ok_or_else(|| {
        ConnectError::new(
            Code::InvalidArgument,
            "Connect-Timeout-Ms is not a number of up to ten digits",
        )
    })?;
    Ok((number > 0).then(|| Duration::from_millis(number)))
}

/// A value that makes no sense is as good as none.
fn keepalive(value: Option<&HeaderValue>) -> Duration {
    let seconds = value.and_then(number).filter(|seconds| (1..=3600).contains(seconds));
    seconds.map_or(KEEPALIVE, Duration::from_secs)
}

/// Other schemes than Basic are for whoever stands before us.
fn user(value: Option<&HeaderValue>) -> Result<Option<String>, ConnectError> {
    let Some((scheme, credentials)) =
        value.and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '))
    else {
        return Ok(None);
    };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    let decoded = base64_simd::STANDARD.decode_to_vec(credentials.trim()).ok();
    let decoded = decoded.and_then(|decoded| String::from_utf8(decoded).ok());
    match decoded.as_deref().and_then(|decoded| decoded.split_once(':')) {
        Some((user, _)) => Ok(Some(user.to_owned())),
        None => {
            Err(ConnectError::new(Code::Unauthenticated, "Authorization has no valid username"))
        }
    }
}

fn begin(value: Option<&HeaderValue>) -> Result<Begin, ConnectError> {
    let Some(value) = value else { return Ok(Begin::Now) };
    let event = number(value).ok_or_else(|| {
        ConnectError::new(Code::InvalidArgument, "mayfly-after is not the number of an event")
    })?;
    Ok(Begin::After(event))
}

fn number(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    // `parse` alone would take a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderName, HeaderValue};
    use wire::Code;

    use super::{KEEPALIVE, Metadata};
    use crate::output::Begin;

    fn read(name: &'static str, value: &'static str) -> Result<Metadata, Code> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        Metadata::read(&headers).map_err(|err| err.code)
    }

    #[test]
    fn a_timeout_is_milliseconds_and_zero_is_none() {
        let timeout = |value| read("connect-timeout-ms", value).map(|metadata| metadata.timeout);
        assert_eq!(timeout("1500"), Ok(Some(Duration::from_millis(1500))));
        assert_eq!(timeout("0"), Ok(None));
        for wrong in ["", "-1", "+1", "1.5", "x", "12345678901"] {
            assert_eq!(timeout(wrong), Err(Code::InvalidArgument), "{wrong}");
        }
    }

    #[test]
    fn a_keepalive_out_of_range_is_the_usual_one() {
        let keepalive =
            |value| read("keepalive-ping-interval", value).map(|metadata| metadata.keepalive);
        assert_eq!(keepalive("50"), Ok(Duration::from_secs(50)));
        for wrong in ["0", "3601", "x"] {
            assert_eq!(keepalive(wrong), Ok(KEEPALIVE), "{wrong}");
        }
    }

    #[test]
    fn a_user_is_the_name_of_basic_credentials() {
        let user = |value| read("authorization", value).map(|metadata| metadata.user);
        assert_eq!(user("Basic dXNlcjo="), Ok(Some("user".into())));
        assert_eq!(user("basic cm9vdDp4"), Ok(Some("root".into())));
        assert_eq!(user("Bearer dXNlcjo="), Ok(None));
        assert_eq!(user("Basic dXNlcg=="), Err(Code::Unauthenticated));
        assert_eq!(user("Basic ***"), Err(Code::Unauthenticated));
    }

    #[test]
    fn a_stream_begins_now_or_behind_an_event() {
        let begin = |value| read("mayfly-after", value).map(|metadata| metadata.begin);
        assert_eq!(begin("0"), Ok(Begin::After(0)));
        assert_eq!(begin("x"), Err(Code::InvalidArgument));
        assert_eq!(read("x", "").map(|metadata| metadata.begin), Ok(Begin::Now));
    }
}
