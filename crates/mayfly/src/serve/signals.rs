//! SIGTERM and SIGINT as a token.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The signals that ask the server to stop, caught from now on.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches them: they no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Gives a token that the first signal cancels. The task that waits ends
    /// with the token, whoever cancels it.
    pub(super) fn cancel_on(mut self, tracker: &TaskTracker) -> CancellationToken {
        let stop = CancellationToken::new();
        let waiting = stop.clone();
        tracker.spawn(async move {
            let name = tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
                () = waiting.cancelled() => return,
            };
            tracing::info!("{name} received, stopping");
            waiting.cancel();
        });
        stop
    }
}
