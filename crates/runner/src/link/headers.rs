//! Which headers pass, in and out.

use http::{HeaderMap, HeaderName, header};

/// Which headers of a request from inside an upstream gets to see.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outward {
    /// The listed ones.
    Only(&'static [&'static str]),
    /// All that are not about the connection, the way here or the inside, and
    /// not the listed ones.
    AllBut(&'static [&'static str]),
}

/// Those that describe one connection, and so never pass.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Those that an upstream could take for ours: where the request came from and
/// on whose behalf. A length is not passed but made from the body; what comes
/// back is read on the way, so it comes without an encoding.
const OF_THE_INSIDE: [&str; 10] = [
    "host",
    "cookie",
    "forwarded",
    "via",
    "x-real-ip",
    "true-client-ip",
    "content-length",
    "expect",
    "accept-encoding",
    "x-original-url",
];

/// The headers that an upstream gets.
pub(super) fn outward(from: &HeaderMap, rule: Outward) -> HeaderMap {
    let named = named_by_connection(from);
    let passes = |name: &HeaderName| {
        let text = name.as_str();
        let connection = HOP_BY_HOP.contains(&text) || named.contains(name);
        let inside = OF_THE_INSIDE.contains(&text) || text.starts_with("x-forwarded-");
        !connection
            && !inside
            && match rule {
                Outward::Only(listed) => listed.contains(&text),
                Outward::AllBut(listed) => !listed.contains(&text),
            }
    };
    copied(from, passes)
}

/// The headers of an answer that go inside.
pub(super) fn inward(from: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(from);
    copied(from, |name| {
        let ours = [header::SET_COOKIE, header::CONTENT_LENGTH, header::ALT_SVC].contains(name);
        !ours && !HOP_BY_HOP.contains(&name.as_str()) && !named.contains(name)
    })
}

fn copied(from: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let kept = from.iter().filter(|(name, _)| passes(name));
    let mut headers = HeaderMap::new();
    for (name, value) in kept {
        headers.append(name.clone(), value.clone());
    }
    headers
}

/// `Connection: a, b` makes `a` and `b` headers of the connection.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).into_iter();
    let names = values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    names.filter_map(|name| name.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::{Outward, inward, outward};

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        all.iter().map(pair).collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn an_upstream_does_not_learn_about_the_way() {
        let from = headers(&[
            ("host", "169.254.169.254"),
            ("connection", "close, x-listed"),
            ("x-listed", "1"),
            ("cookie", "a=b"),
            ("x-forwarded-for", "1.2.3.4"),
            ("forwarded", "for=1.2.3.4"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("accept-encoding", "gzip"),
            ("authorization", "Bearer asbx_1"),
            ("x-own", "1"),
        ]);
        let all = outward(&from, Outward::AllBut(&[]));
        assert_eq!(names(&all), ["authorization", "x-own"]);
        let but = outward(&from, Outward::AllBut(&["authorization"]));
        assert_eq!(names(&but), ["x-own"]);
        let only = outward(&from, Outward::Only(&["authorization", "host"]));
        assert_eq!(names(&only), ["authorization"]);
    }

    #[test]
    fn an_answer_keeps_its_own_headers_and_every_value() {
        let mut from = headers(&[
            ("content-type", "text/event-stream"),
            ("set-cookie", "session=1"),
            ("content-length", "7"),
            ("keep-alive", "timeout=5"),
            ("mcp-session-id", "s"),
        ]);
        from.append("x-twice", HeaderValue::from_static("1"));
        from.append("x-twice", HeaderValue::from_static("2"));
        let inside = inward(&from);
        assert_eq!(names(&inside), ["content-type", "mcp-session-id", "x-twice"]);
        assert_eq!(inside.get_all("x-twice").iter().count(), 2);
    }
}
