//! A connection whose other end must go on reading.
//!
//! While a program inside reads nothing, an answer for it waits with its
//! upstream's socket open. That is given up after a while, so that a program
//! that never reads cannot keep sockets of the host for ever.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// A connection that breaks when nothing can be written for `patience`.
pub(super) struct Stall<C> {
    inner: C,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<C> Stall<C> {
    pub(super) fn new(inner: C, patience: Duration) -> Stall<C> {
        Stall { inner, patience, waiting: None }
    }

    fn judged<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Stall<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, into)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Stall<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judged(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.judged(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.judged(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judged(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::Stall;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_breaks_the_connection_and_a_slow_one_does_not() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = Stall::new(near, Duration::from_secs(10));
        let slow = async {
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                far.read_exact(&mut [0; 8]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(near.write_all(&[0; 32]), slow);
        written.unwrap();
        let stuck = near.write_all(&[0; 32]).await.unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
    }
}
