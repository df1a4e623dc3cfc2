//! SIGTERM and SIGINT as a token, and what each means for the sandboxes.

use std::io;
use std::sync::{Arc, OnceLock};

use sandbox::Closing;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The signals that ask the server to stop, caught from now on.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// The wish to stop, once it has come.
#[derive(Clone)]
pub(super) struct Stop {
    pub(super) token: CancellationToken,
    closing: Arc<OnceLock<Closing>>,
}

impl Stop {
    /// Waits for it, and says what becomes of the sandboxes: a service manager's
    /// SIGTERM means a restart, which they outlive; Ctrl-C means all of it.
    pub(super) async fn wished(&self) -> Closing {
        self.token.cancelled().await;
        self.closing.get().copied().unwrap_or(Closing::Leave)
    }
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
    pub(super) fn cancel_on(mut self, tracker: &TaskTracker) -> Stop {
        let stop = Stop { token: CancellationToken::new(), closing: Arc::default() };
        let waiting = stop.clone();
        tracker.spawn(async move {
            let (name, closing) = tokio::select! {
                _ = self.terminate.recv() => ("SIGTERM", Closing::Leave),
                _ = self.interrupt.recv() => ("SIGINT", Closing::Destroy),
                () = waiting.token.cancelled() => return,
            };
            tracing::info!("{name} received, stopping");
            // The first signal is the only one that this task waits for.
            let _ = waiting.closing.set(closing);
            waiting.token.cancel();
        });
        stop
    }
}
