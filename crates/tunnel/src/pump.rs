//! Moves the bytes of one stream, both ways, as its credit allows.

use std::{io, sync::atomic::Ordering};

use tokio::{
    io::AsyncWriteExt,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use crate::{
    frame::{CHUNK, Frame, WINDOW},
    hub::{Credit, Hub},
};

/// Credit is given back in portions, not for every byte.
const PORTION: usize = WINDOW / 4;

/// Runs until both directions have ended, or one has failed.
pub(crate) async fn pump(
    hub: &Hub,
    id: u32,
    socket: UnixStream,
    bytes: mpsc::UnboundedReceiver<Vec<u8>>,
    credit: &Credit,
    reset: &CancellationToken,
) {
    let (reads, writes) = socket.into_split();
    let moving = async {
        let both = tokio::try_join!(
            outward(hub, id, reads, credit),
            inward(hub, id, writes, bytes, credit)
        );
        if both.is_err() {
            // With the session over nobody has to be told.
            let _ = hub.frames.send(Frame::Reset(id)).await;
        }
    };
    tokio::select! {
        () = moving => {}
        () = reset.cancelled() => {}
    }
}

async fn outward(hub: &Hub, id: u32, socket: OwnedReadHalf, credit: &Credit) -> io::Result<()> {
    loop {
        // No buffer is kept while there is nothing to read.
        socket.readable().await?;
        let least = credit.ours.acquire().await.map_err(io::Error::other)?;
        least.forget();
        let more = credit.ours.available_permits().min(CHUNK - 1);
        let room = match credit.ours.try_acquire_many(more as u32) {
            Ok(permits) => {
                permits.forget();
                1 + more
            }
            Err(_) => 1,
        };
        let mut data = Vec::with_capacity(room);
        let length = match socket.try_read_buf(&mut data) {
            Ok(length) => length,
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                credit.ours.add_permits(room);
                continue;
            }
            Err(err) => return Err(err),
        };
        // The buffer may have been made larger than it was asked to be.
        let used = length.min(room);
        credit.ours.add_permits(room - used);
        let frame = if length == 0 { Frame::End(id) } else { Frame::Data(id, data) };
        hub.frames.send(frame).await.map_err(io::Error::other)?;
        if length == 0 {
            return Ok(());
        }
    }
}

async fn inward(
    hub: &Hub,
    id: u32,
    mut socket: OwnedWriteHalf,
    mut bytes: mpsc::UnboundedReceiver<Vec<u8>>,
    credit: &Credit,
) -> io::Result<()> {
    let mut eaten = 0;
    while let Some(data) = bytes.recv().await {
        socket.write_all(&data).await?;
        eaten += data.len();
        if eaten >= PORTION {
            // Allowed before it is announced: the answer may come at once.
            credit.theirs.fetch_add(eaten, Ordering::AcqRel);
            let window = Frame::Window(id, eaten as u32);
            hub.frames.send(window).await.map_err(io::Error::other)?;
            eaten = 0;
        }
    }
    socket.shutdown().await
}
