//! An answer of a model on its way inside: its bytes pass as they are, and at
//! the end of the call, whatever that end is, its tokens are booked and told.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc::OwnedPermit};

use super::{
    body::{BoxError, Pulse},
    upstreams::{Note, Upstreams},
    usage::Reader,
};

/// A call that the provider may charge for. It is booked when it is dropped,
/// so hanging up early is no way to have it for nothing.
pub(super) struct Call {
    upstreams: Arc<Upstreams>,
    sent: Pulse,
    reader: Reader,
    /// Its place among the run's calls, and one in the channel: telling what it
    /// cost never waits and never fails.
    open: Option<(OwnedSemaphorePermit, OwnedPermit<Note>)>,
}

impl Call {
    pub(super) fn new(
        upstreams: Arc<Upstreams>,
        sent: Pulse,
        place: OwnedSemaphorePermit,
        note: OwnedPermit<Note>,
    ) -> Call {
        Call { upstreams, sent, reader: Reader::new(""), open: Some((place, note)) }
    }

    /// The call was refused and costs nothing.
    pub(super) fn forget(mut self) {
        self.open = None;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some((place, note)) = self.open.take() else { return };
        let usage = self.reader.finish(self.sent.bytes());
        self.upstreams.spend(usage.total());
        note.send(Note::Usage(usage));
        // The next call starts after this one is booked.
        drop(place);
    }
}

/// The body of an answer that is being counted.
pub(super) struct Metered<B> {
    inner: B,
    call: Option<Call>,
}

impl<B> Metered<B> {
    pub(super) fn new(inner: B, mut call: Call, content_type: &str) -> Metered<B> {
        call.reader = Reader::new(content_type);
        Metered { inner, call: Some(call) }
    }
}

impl<B: Body<Data = Bytes, Error = BoxError> + Unpin> Body for Metered<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(piece), Some(call)) = (frame.data_ref(), &mut self.call) {
                    call.reader.push(piece);
                }
            }
            Some(Err(_)) | None => self.call = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
