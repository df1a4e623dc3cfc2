//! A connection that says when hyper has nothing left to write.
//!
//! hyper takes a body's frames into its own buffer and writes them later. The
//! control stream has to know when: it flushes the connection only after all it
//! was given has gone into the socket.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::{control::Link, daemon::Daemon};

/// What is known of a connection beside its bytes.
#[derive(Default)]
pub(crate) struct Connection {
    /// Set when it carries the control stream.
    pub(crate) control: Cell<Option<Link>>,
}

/// A socket that reports its flushes.
pub(crate) struct FlushWatch {
    stream: TokioIo<UnixStream>,
    connection: Rc<Connection>,
    daemon: Rc<Daemon>,
}

impl FlushWatch {
    pub(crate) fn new(
        stream: UnixStream,
        connection: Rc<Connection>,
        daemon: Rc<Daemon>,
    ) -> FlushWatch {
        FlushWatch { stream: TokioIo::new(stream), connection, daemon }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TokioIo<UnixStream>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl Read for FlushWatch {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buffer)
    }
}

impl Write for FlushWatch {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.as_mut().stream().poll_flush(cx);
        if let (Poll::Ready(Ok(())), Some(link)) = (&flushed, self.connection.control.get()) {
            self.daemon.control.flushed(link);
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, pieces)
    }
}
