//! What every route may use.

use std::{sync::Arc, time::Instant};

use http_kit::{Histogram, Keys, RequestCounts};
use sandbox::{AccessTokens, Sandboxes};

/// What the front door is made of.
pub struct Settings {
    /// The sandboxes behind it.
    pub sandboxes: Sandboxes,
    /// Who may come in.
    pub keys: Keys,
    /// The data plane's credentials.
    pub tokens: AccessTokens,
    /// Domain of `<port>-<id>.<domain>` hosts, told to the SDKs.
    pub domain: Option<String>,
}

/// The front door. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) sandboxes: Sandboxes,
    pub(crate) keys: Keys,
    pub(crate) tokens: AccessTokens,
    pub(crate) domain: Option<Arc<str>>,
    pub(crate) starts: Arc<Histogram>,
    pub(crate) requests: Arc<RequestCounts>,
    pub(crate) began: Instant,
}

impl Gateway {
    /// A door made of `settings`.
    pub fn new(settings: Settings) -> Gateway {
        Gateway {
            sandboxes: settings.sandboxes,
            keys: settings.keys,
            tokens: settings.tokens,
            domain: settings.domain.map(Arc::from),
            starts: Arc::default(),
            requests: Arc::default(),
            began: Instant::now(),
        }
    }

    /// The domain in the shape of E2B's messages.
    pub(crate) fn domain(&self) -> Option<String> {
        self.domain.as_deref().map(str::to_owned)
    }
}
