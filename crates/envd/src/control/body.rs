//! The body of `GET /control`.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Drain, Link};
use crate::daemon::Daemon;

/// Lines for the host, as long as it reads them.
pub(crate) struct ControlBody {
    daemon: Rc<Daemon>,
    link: Link,
    timer: Pin<Box<Sleep>>,
}

impl ControlBody {
    pub(crate) fn new(daemon: Rc<Daemon>, link: Link) -> ControlBody {
        ControlBody { daemon, link, timer: Box::pin(sleep_until(Instant::now())) }
    }
}

impl Body for ControlBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let control = &body.daemon.control;
        loop {
            match control.drain(body.link, || body.daemon.table.snapshot()) {
                Drain::Replaced => return Poll::Ready(None),
                Drain::Lines(lines) => return Poll::Ready(Some(Ok(Frame::data(lines)))),
                Drain::Nothing => {
                    control.wait(cx.waker());
                    return Poll::Pending;
                }
                Drain::Until(due) => {
                    control.wait(cx.waker());
                    body.timer.as_mut().reset(due);
                    if body.timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl Drop for ControlBody {
    fn drop(&mut self) {
        self.daemon.control.detach(self.link);
    }
}
