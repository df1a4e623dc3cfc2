//! Which sandbox and port a request means, by its host name or its headers.

use axum::http::{HeaderMap, Uri, header::HOST};
use http_kit::Fault;
use wire::{Code, SandboxId};

/// The port on which envd's protocol is spoken.
pub(super) const ENVD_PORT: u16 = 49983;

/// A sandbox and a port of it, as named by the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) port: u16,
}

impl Target {
    /// `None` for a request to the control plane. A host name `<port>-<id>.…`
    /// wins over the headers, as it does with E2B.
    pub(super) fn of(uri: &Uri, headers: &HeaderMap) -> Result<Option<Target>, Fault> {
        // HTTP/2 has the host in the URI.
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or(uri.host());
        if let Some(target) = host.and_then(from_host) {
            return Ok(Some(target));
        }
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let malformed = |message| Err(Fault::new(Code::InvalidArgument, message));
        match (header("e2b-sandbox-id"), header("e2b-sandbox-port")) {
            (None, None) => Ok(None),
            (Some(name), Some(port)) => match port.parse() {
                Ok(port) => Ok(Some(Target { name: name.to_owned(), port })),
                Err(_) => malformed("header `E2b-Sandbox-Port` is not a port"),
            },
            (Some(_), None) => malformed("header `E2b-Sandbox-Port` is missing"),
            (None, Some(_)) => malformed("header `E2b-Sandbox-Id` is missing"),
        }
    }

    /// The id, if the name can be one.
    pub(super) fn id(&self) -> Option<SandboxId> {
        SandboxId::parse(&self.name).ok()
    }
}

fn from_host(host: &str) -> Option<Target> {
    let (label, _) = host.split_once('.')?;
    let (port, name) = label.split_once('-')?;
    let port = port.parse().ok()?;
    SandboxId::parse(name).ok()?;
    Some(Target { name: name.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

    use super::Target;

    /// Expected: `port-name`, `control` or `bad`.
    #[track_caller]
    fn check(headers: &[(&'static str, &'static str)], expected: &str) {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let seen = match Target::of(&Uri::from_static("/health"), &headers) {
            Ok(Some(target)) => format!("{}-{}", target.port, target.name),
            Ok(None) => "control".to_owned(),
            Err(_) => "bad".to_owned(),
        };
        assert_eq!(seen, expected, "{headers:?}");
    }

    #[test]
    fn a_sandbox_is_named_by_host_or_by_headers() {
        check(&[("host", "127.0.0.1:3000")], "control");
        check(&[("host", "api.example.com")], "control");
        check(&[("host", "49983-i1.example.com:3000")], "49983-i1");
        check(&[("host", "8080-i1")], "control");
        check(&[("host", "99999-i1.example.com")], "control");
        check(&[("host", "80-I1.example.com")], "control");
        let headers = [("e2b-sandbox-id", "i2"), ("e2b-sandbox-port", "49983")];
        check(&headers, "49983-i2");
        check(&[("host", "80-i1.x"), headers[0], headers[1]], "80-i1");
    }

    #[test]
    fn half_a_name_is_refused() {
        check(&[("e2b-sandbox-id", "i2")], "bad");
        check(&[("e2b-sandbox-port", "80")], "bad");
        check(&[("e2b-sandbox-id", "i2"), ("e2b-sandbox-port", "x")], "bad");
    }
}
