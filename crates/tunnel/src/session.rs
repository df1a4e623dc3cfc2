//! One session of a tunnel, from the first frame to the last.
//!
//! ```text
//! opening side                    accepting side
//!               ── Hello ──►
//!               ◄── Hello ──
//!               ─── Open, Data, Window, End, Reset ───
//!               ── Finish ──►     ends its streams
//! reads on      ◄── Finish ──     may begin the next session
//! ```
//!
//! The task that reads never waits for the one that writes, so two full pipes
//! cannot stop each other.

use std::{io, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::{mpsc, watch},
};

use crate::{
    frame::Frame,
    hub::{Hub, STREAMS},
};

/// Frames that wait to be written. Each stream has at most two of them.
const OUTBOX: usize = 64;
/// Bytes that are written at once, when there are so many.
const BATCH: usize = 128 << 10;
/// Connections that wait to be opened.
const WAITING: usize = 64;

/// What a host says first on a connection that becomes a sandbox's link. The
/// sandbox answers with the port of its loopback that leads into it, and is the
/// opening side from there on.
pub const LINK_GREETING: u8 = 0;

/// How a session ended.
#[derive(Debug)]
pub enum Parting {
    /// Both sides are at a frame's edge: another session may follow.
    Finished,
    /// The peer is gone.
    Gone,
    /// The pipes failed, or the peer broke the rules.
    Failed(io::Error),
}

/// Asks for connections through a tunnel.
#[derive(Clone)]
pub struct Opener {
    orders: mpsc::Sender<Order>,
    ready: watch::Receiver<bool>,
}

/// What an [`Opener`] asks for, as `open_side` gets it.
pub struct Orders {
    orders: mpsc::Receiver<Order>,
    ready: watch::Sender<bool>,
}

/// Connections that came through a tunnel.
pub type Accepted = mpsc::Receiver<UnixStream>;

enum Order {
    Open(UnixStream),
    Finish,
}

/// Both ends of the opening side's handle.
pub fn opening() -> (Opener, Orders) {
    let (order, orders) = mpsc::channel(WAITING);
    let (is_ready, ready) = watch::channel(false);
    (Opener { orders: order, ready }, Orders { orders, ready: is_ready })
}

/// Both ends of the accepting side's queue.
pub fn accepting() -> (mpsc::Sender<UnixStream>, Accepted) {
    mpsc::channel(STREAMS)
}

impl Opener {
    /// Opens a connection. What is written to it before the peer has accepted
    /// waits for that.
    pub async fn open(&self) -> io::Result<UnixStream> {
        let (near, far) = UnixStream::pair()?;
        let over = |_| io::Error::from(io::ErrorKind::NotConnected);
        self.orders.send(Order::Open(far)).await.map_err(over)?;
        Ok(near)
    }

    /// Asks for the session's end at a frame's edge.
    pub async fn finish(&self) {
        // A session that is over does not have to be finished.
        let _ = self.orders.send(Order::Finish).await;
    }

    /// Returns when the peer is there. An error when it never will be.
    pub async fn ready(&self) -> io::Result<()> {
        let mut ready = self.ready.clone();
        let seen = ready.wait_for(|ready| *ready).await;
        seen.map(|_| ()).map_err(|_| io::ErrorKind::NotConnected.into())
    }
}

/// Carries the connections of an [`Opener`] until the session ends.
pub async fn open_side<R, W>(input: &mut R, output: &mut W, orders: Orders) -> Parting
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let Orders { mut orders, ready } = orders;
    let (frames, outbox) = mpsc::channel(OUTBOX);
    let hub = Arc::new(Hub::new(frames));
    // A session that is dropped takes its streams along.
    let _streams = hub.stop.clone().drop_guard();
    let reading = async {
        let mut input = BufReader::new(input);
        loop {
            match next(&mut input, &hub).await {
                Ok(Heard::Hello) => _ = ready.send_replace(true),
                // Nothing behind walls opens connections to us this way.
                Ok(Heard::Open(_)) => break Parting::Failed(io::ErrorKind::InvalidData.into()),
                Ok(Heard::Finish) => break Parting::Finished,
                Ok(Heard::Gone) => break Parting::Gone,
                Err(err) => break Parting::Failed(err),
            }
        }
    };
    let writing = async {
        match write(output, outbox).await {
            // The last frame is written; its answer ends the session.
            Ok(()) => std::future::pending().await,
            Err(err) => Parting::Failed(err),
        }
    };
    let parting = tokio::select! {
        parting = reading => parting,
        parting = writing => parting,
        parting = obey(&hub, &mut orders) => parting,
    };
    hub.close().await;
    parting
}

/// Opens what is asked for, and finishes when that is. Never returns.
async fn obey(hub: &Arc<Hub>, orders: &mut mpsc::Receiver<Order>) -> Parting {
    let _ = hub.frames.send(Frame::Hello).await;
    let mut last = 0_u32;
    while let Some(Order::Open(socket)) = orders.recv().await {
        last = last.wrapping_add(1);
        let _ = hub.frames.send(Frame::Open(last)).await;
        if hub.begin(last, socket).is_err() {
            // The socket is closed, and whoever opened it sees that.
            let _ = hub.frames.send(Frame::Reset(last)).await;
        }
    }
    orders.close();
    hub.close().await;
    let _ = hub.frames.send(Frame::Finish).await;
    std::future::pending().await
}

/// Accepts connections until the session ends.
pub async fn accept_side<R, W>(
    input: &mut R,
    output: &mut W,
    accepted: &mpsc::Sender<UnixStream>,
) -> Parting
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (frames, outbox) = mpsc::channel(OUTBOX);
    let hub = Arc::new(Hub::new(frames));
    // A session that is dropped takes its streams along.
    let _streams = hub.stop.clone().drop_guard();
    let reading = async {
        let mut input = BufReader::new(input);
        loop {
            match next(&mut input, &hub).await {
                // It comes once; with more of them than fit, the peer is odd.
                Ok(Heard::Hello) => _ = hub.frames.try_send(Frame::Hello),
                Ok(Heard::Open(id)) => {
                    if let Err(err) = accept(&hub, id, accepted) {
                        break Parting::Failed(err);
                    }
                }
                Ok(Heard::Finish) => break Parting::Finished,
                Ok(Heard::Gone) => break Parting::Gone,
                Err(err) => break Parting::Failed(err),
            }
        }
    };
    let writing = write(output, outbox);
    tokio::pin!(writing);
    let parting = tokio::select! {
        parting = reading => parting,
        written = &mut writing => Parting::Failed(written.err().unwrap_or_else(closed)),
    };
    match parting {
        Parting::Finished => {
            let finishing = async {
                hub.close().await;
                let _ = hub.frames.send(Frame::Finish).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = finishing => {}
                _ = &mut writing => {}
            }
        }
        Parting::Gone | Parting::Failed(_) => hub.close().await,
    }
    parting
}

/// A connection that cannot be taken now ends at once, and its opener sees that.
fn accept(hub: &Arc<Hub>, id: u32, accepted: &mpsc::Sender<UnixStream>) -> io::Result<()> {
    let (near, far) = UnixStream::pair()?;
    let _ = accepted.try_send(near);
    hub.begin(id, far).map_err(io::Error::other)
}

/// What a session has to decide about; the rest is the hub's.
enum Heard {
    Hello,
    Open(u32),
    Finish,
    Gone,
}

async fn next(input: &mut (impl AsyncRead + Unpin), hub: &Hub) -> io::Result<Heard> {
    loop {
        let Some(frame) = Frame::read(input).await? else { return Ok(Heard::Gone) };
        match frame {
            Frame::Hello => return Ok(Heard::Hello),
            Frame::Open(id) => return Ok(Heard::Open(id)),
            Frame::Finish => return Ok(Heard::Finish),
            Frame::Data(id, data) => hub.deliver(id, data).map_err(io::Error::other)?,
            Frame::Window(id, credit) => hub.allow(id, credit).map_err(io::Error::other)?,
            Frame::End(id) => hub.end(id),
            Frame::Reset(id) => hub.reset(id),
        }
    }
}

/// Writes frames until the last one, as many at once as there are.
async fn write(
    output: &mut (impl AsyncWrite + Unpin),
    mut outbox: mpsc::Receiver<Frame>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(first) = outbox.recv().await {
        let mut next = Some(first);
        let mut is_last = false;
        while let Some(frame) = next.take() {
            is_last |= frame == Frame::Finish;
            frame.encode(&mut bytes);
            if bytes.len() < BATCH {
                next = outbox.try_recv().ok();
            }
        }
        output.write_all(&bytes).await?;
        output.flush().await?;
        if is_last {
            return Ok(());
        }
        bytes.clear();
        // An idle tunnel keeps no memory of its busiest moment.
        bytes.shrink_to(4096);
    }
    Err(closed())
}

fn closed() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

#[cfg(test)]
mod tests;
