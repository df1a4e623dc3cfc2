//! Who listens to a turn, and how long nobody has.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

/// How long the first listener may take to come: whoever got the address of a
/// stream has to open it first.
const FIRST: Duration = Duration::from_secs(10);

/// The listeners of one turn.
#[derive(Clone, Debug)]
pub(super) struct Listeners(Arc<watch::Sender<Count>>);

/// One listener; dropping it says that it has gone.
#[derive(Debug)]
pub(super) struct Listener(Listeners);

#[derive(Clone, Copy, Debug)]
struct Count {
    now: usize,
    /// Somebody has listened before.
    ever: bool,
}

impl Listeners {
    pub(super) fn new() -> Listeners {
        Listeners(Arc::new(watch::channel(Count { now: 0, ever: false }).0))
    }

    /// One more listens.
    pub(super) fn join(&self) -> Listener {
        self.0.send_modify(|count| *count = Count { now: count.now + 1, ever: true });
        Listener(self.clone())
    }

    /// Waits until nobody has listened for `grace`, which is how long a browser
    /// may take to reload its page.
    pub(super) async fn abandoned(&self, grace: Duration) {
        let mut count = self.0.subscribe();
        loop {
            // The sender is ours, so neither wait fails.
            let Ok(none) = count.wait_for(|count| count.now == 0).await.map(|count| *count) else {
                return;
            };
            let grace = if none.ever { grace } else { grace.max(FIRST) };
            if timeout(grace, count.wait_for(|count| count.now > 0)).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| count.now -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::{FIRST, Listeners};

    const GRACE: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_abandoned_when_nobody_has_listened_for_the_grace() {
        let listeners = Listeners::new();
        let first = listeners.join();
        let second = listeners.join();
        drop(first);
        assert!(timeout(FIRST * 9, listeners.abandoned(GRACE)).await.is_err());
        drop(second);
        let began = Instant::now();
        listeners.abandoned(GRACE).await;
        assert_eq!(began.elapsed(), GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reload_in_time_is_no_departure() {
        let listeners = Listeners::new();
        drop(listeners.join());
        let abandoned = listeners.abandoned(GRACE);
        tokio::pin!(abandoned);
        assert!(timeout(GRACE / 2, &mut abandoned).await.is_err());
        let back = listeners.join();
        assert!(timeout(GRACE * 9, &mut abandoned).await.is_err());
        drop(back);
        assert!(timeout(GRACE * 2, &mut abandoned).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_listener_has_time_to_come_even_without_a_grace() {
        let listeners = Listeners::new();
        let began = Instant::now();
        listeners.abandoned(Duration::ZERO).await;
        assert_eq!(began.elapsed(), FIRST);
        drop(listeners.join());
        listeners.abandoned(Duration::ZERO).await;
        assert_eq!(began.elapsed(), FIRST);
    }
}
