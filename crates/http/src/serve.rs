//! Serving until told to stop, and stopping in order.

use std::{io, time::Duration};

use axum::{Router, serve::ListenerExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves `router` until `stop`, then lets open requests finish for at most
/// `grace`. Whoever holds streams open ends them on the same token: an open
/// body would hold up the server until the grace is over.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    grace: Duration,
) -> io::Result<()> {
    let listener = listener.tap_io(|connection| {
        // Small frames of a stream must not wait for one another.
        if let Err(err) = connection.set_nodelay(true) {
            tracing::debug!("cannot switch Nagle's algorithm off: {err}");
        }
    });
    let serving =
        axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        result = serving => result,
        () = overdue => {
            tracing::warn!("requests were still open {} s after the stop", grace.as_secs());
            Ok(())
        }
    }
}
