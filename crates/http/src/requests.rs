//! One log line a request, and how many there were.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};

/// Answers by class: 1xx to 5xx.
#[derive(Debug, Default)]
pub struct RequestCounts([AtomicU64; 5]);

impl RequestCounts {
    /// The counts with the names of their classes.
    pub fn by_class(&self) -> [(&'static str, u64); 5] {
        let names = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        std::array::from_fn(|class| (names[class], self.0[class].load(Ordering::Relaxed)))
    }

    fn add(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.0[class].fetch_add(1, Ordering::Relaxed);
    }
}

/// Middleware. The time is to the first byte: a stream may go on for hours.
pub async fn log_requests(
    State(counts): State<Arc<RequestCounts>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    // Without the query: signed URLs carry their secret there.
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    counts.add(status);
    let duration_ms = began.elapsed().as_secs_f64() * 1e3;
    tracing::debug!(%method, path, status, duration_ms, "{method} {path} answered {status}");
    response
}
