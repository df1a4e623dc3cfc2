//! What every route may use.

use std::{sync::Arc, time::Instant};

use http_kit::{Exposition, Histogram, Keys, RequestCounts};
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
    /// Adds the series of others to a scrape.
    pub more_metrics: MoreMetrics,
}

/// Series of parts that the front door does not know.
pub type MoreMetrics = Arc<dyn Fn(&mut Exposition) + Send + Sync>;

/// The front door. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) sandboxes: Sandboxes,
    pub(crate) keys: Keys,
    pub(crate) tokens: AccessTokens,
    pub(crate) domain: Option<Arc<str>>,
    pub(crate) starts: Arc<Histogram>,
    pub(crate) requests: Arc<RequestCounts>,
    pub(crate) more_metrics: MoreMetrics,
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
            more_metrics: settings.more_metrics,
            began: Instant::now(),
        }
    }

    /// The domain in the shape of E2B's messages.
    pub(crate) fn domain(&self) -> Option<String> {
        self.domain.as_deref().map(str::to_owned)
    }
}
