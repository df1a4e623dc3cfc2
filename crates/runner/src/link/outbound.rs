//! Connections to the outside: one client for the whole server, which dials
//! only addresses that the operator's policy allows.
//!
//! The rule is about what is dialled, not about what is written: names are
//! resolved here and their answers filtered, so a name that changes its mind
//! between a check and the dial changes nothing. Redirects are not followed and
//! proxies of the environment not used: both would dial for us.

use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use reqwest::{
    Client, ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};

use super::{
    policy::AddressPolicy,
    target::{BadTarget, Target},
};

/// How long a connection may take to be made, the name's resolution included.
const CONNECT: Duration = Duration::from_secs(10);

/// The server's client for upstreams. Cloning it shares its connections.
#[derive(Clone, Debug)]
pub struct Outbound {
    client: Client,
    policy: Arc<AddressPolicy>,
}

/// The client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot prepare connections to the outside")]
pub struct OutboundError(#[source] reqwest::Error);

/// The URL is not one that an upstream may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefused {
    /// Not an absolute http or https URL.
    #[error(transparent)]
    Target(#[from] BadTarget),
    /// The operator's policy does not allow its address.
    #[error("has an address that this server may not call")]
    Denied,
}

/// A request got no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("has an address that this server may not call")]
    Denied,
    #[error("cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[error("broke the connection off")]
    Broken(#[source] reqwest::Error),
}

/// A document was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error(transparent)]
    Target(#[from] BadTarget),
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("did not answer within {} s", .0.as_secs())]
    Late(Duration),
    #[error("answered {0}")]
    Refused(StatusCode),
}

impl Outbound {
    /// A client under `policy`.
    pub fn new(policy: AddressPolicy) -> Result<Outbound, OutboundError> {
        let policy = Arc::new(policy);
        let client = Outbound::builder(&policy).build().or_else(|err| {
            // A machine without any certificate authority can still serve
            // callers over http; https then says that it trusts nobody.
            tracing::warn!("no certificate authorities found, https upstreams will fail: {err}");
            Outbound::builder(&policy).tls_certs_only([]).build()
        });
        Ok(Outbound { client: client.map_err(OutboundError)?, policy })
    }

    /// Whether an upstream may have this URL, as far as can be said without
    /// asking for names.
    pub fn check(&self, url: &str) -> Result<(), UrlRefused> {
        let target = Target::parse(url)?;
        if self.refuses_literal(&target) { Err(UrlRefused::Denied) } else { Ok(()) }
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Option<reqwest::Body>,
    ) -> Result<Response<reqwest::Body>, SendError> {
        // No resolver is asked about an address, so this is its only check.
        if self.refuses_literal(target) {
            return Err(SendError::Denied);
        }
        let mut request = self.client.request(method, target.url().clone()).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        match request.send().await {
            Ok(response) => Ok(response.into()),
            Err(err) if was_denied(&err) => Err(SendError::Denied),
            // Without its URL, which may hold a signature.
            Err(err) if err.is_connect() => Err(SendError::Unreachable(err.without_url())),
            Err(err) => Err(SendError::Broken(err.without_url())),
        }
    }

    /// Posts a document whose answer nobody reads.
    pub(crate) async fn post(
        &self,
        url: &str,
        document: String,
        patience: Duration,
    ) -> Result<(), PostError> {
        let target = Target::parse(url)?;
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
        let body = Some(reqwest::Body::from(document));
        let sending = self.send(Method::POST, &target, headers, body);
        let answer = tokio::time::timeout(patience, sending).await;
        let status = answer.map_err(|_| PostError::Late(patience))??.status();
        if status.is_success() { Ok(()) } else { Err(PostError::Refused(status)) }
    }

    fn builder(policy: &Arc<AddressPolicy>) -> ClientBuilder {
        Client::builder()
            .dns_resolver(Arc::new(Filtered { policy: Arc::clone(policy) }))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT)
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(16)
    }

    fn refuses_literal(&self, target: &Target) -> bool {
        let host = target.url().host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
        literal.is_ok_and(|address| !self.policy.allows(address))
    }
}

/// The system's resolver, without the answers that the policy does not allow.
struct Filtered {
    policy: Arc<AddressPolicy>,
}

/// A name has no address that may be dialled.
#[derive(Debug, thiserror::Error)]
#[error("every address of the name is closed")]
struct NameDenied;

impl Resolve for Filtered {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.policy);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let open: Vec<SocketAddr> =
                found.filter(|address| policy.allows(address.ip())).collect();
            if open.is_empty() {
                return Err(NameDenied.into());
            }
            Ok(Box::new(open.into_iter()) as Addrs)
        })
    }
}

fn was_denied(err: &reqwest::Error) -> bool {
    let mut cause = err.source();
    while let Some(err) = cause {
        if err.is::<NameDenied>() {
            return true;
        }
        cause = err.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{AddressPolicy, Outbound, UrlRefused};

    #[test]
    fn an_address_in_a_url_is_checked_in_every_spelling() {
        let outbound = Outbound::new(AddressPolicy::Standard).unwrap();
        for denied in [
            "http://169.254.169.254/latest",
            "http://0xa9.0xfe.0xa9.0xfe/",
            "http://2852039166/",
            "http://[::ffff:169.254.169.254]/",
            "http://[fe80::1]:80/",
        ] {
            assert_eq!(outbound.check(denied), Err(UrlRefused::Denied), "{denied}");
        }
        assert_eq!(outbound.check("http://127.0.0.1:8080/x"), Ok(()));
        assert!(matches!(outbound.check("gopher://h/"), Err(UrlRefused::Target(_))));
    }
}
