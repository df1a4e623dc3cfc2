//! A body on its way through: passed on piece by piece, never longer than
//! allowed, and given up when its sender falls silent.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// Boxed, because it comes from hyper on one side and reqwest on the other.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Cut {
    #[error("the body has more than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("nothing came for {} s", .after.as_secs())]
    Silent { after: Duration },
}

/// What a body may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) bytes: u64,
    pub(super) silence: Duration,
}

/// Counts the bytes of a body that passed, for others to see: who waits for an
/// answer knows that the question is still being sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse(Arc<AtomicU64>);

impl Pulse {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A body under an allowance.
pub(super) struct Guarded<B> {
    inner: B,
    allowance: Allowance,
    pulse: Pulse,
    /// Runs only while somebody waits for a piece that is not there: a slow
    /// reader is not the sender's fault.
    silence: Option<Pin<Box<Sleep>>>,
}

impl<B> Guarded<B> {
    pub(super) fn new(inner: B, allowance: Allowance, pulse: Pulse) -> Guarded<B> {
        Guarded { inner, allowance, pulse, silence: None }
    }
}

impl<B> Body for Guarded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            let after = this.allowance.silence;
            let silence = this
                .silence
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + after)));
            ready!(silence.as_mut().poll(context));
            return Poll::Ready(Some(Err(Cut::Silent { after }.into())));
        };
        this.silence = None;
        let Some(frame) = frame else { return Poll::Ready(None) };
        let frame = frame.map_err(Into::into)?;
        let length = frame.data_ref().map_or(0, Bytes::len);
        let before = this.pulse.0.fetch_add(length as u64, Ordering::Relaxed);
        let limit = this.allowance.bytes;
        if before.saturating_add(length as u64) > limit {
            return Poll::Ready(Some(Err(Cut::TooLarge { limit }.into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
