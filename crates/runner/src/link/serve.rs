//! Serving the connections that come from inside.
//!
//! Whoever makes them is hostile: their number is bounded, and so are heads,
//! the time a head may take, and the time an answer may wait to be read.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinSet,
};

use super::{
    stall::Stall,
    upstreams::{Note, Upstreams},
};

/// Connections of one run at a time; HTTP/1.1 has one request on each.
const CONNECTIONS: usize = 64;
const HEADERS: usize = 100;
/// hyper reads this much before it looks, so a head may have twice as much.
const HEAD_BYTES: usize = 32 << 10;
/// How long a head may take, and a connection wait for the next one. Longer
/// than clients keep theirs, so that it is they who hang up.
const HEAD: Duration = Duration::from_secs(120);
/// How long a program inside may read nothing of an answer.
const UNREAD: Duration = Duration::from_secs(600);

/// Serves connections from inside until there are no more and all are closed.
/// More than 64 at a time wait. Dropping the future closes them all.
pub async fn serve<C>(
    connections: impl Stream<Item = C>,
    upstreams: Arc<Upstreams>,
    notes: mpsc::Sender<Note>,
) where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut connections = pin!(connections);
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            Some(ended) = open.join_next() => {
                if let Err(err) = ended {
                    tracing::error!("serving a connection of a host link failed: {err}");
                }
            }
            connection = connections.next(), if open.len() < CONNECTIONS => {
                let Some(connection) = connection else { break };
                open.spawn(serve_one(connection, Arc::clone(&upstreams), notes.clone()));
            }
        }
    }
    while open.join_next().await.is_some() {}
}

async fn serve_one<C>(connection: C, upstreams: Arc<Upstreams>, notes: mpsc::Sender<Note>)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        let answer = Arc::clone(&upstreams).answer(request, notes.clone());
        async { Ok::<_, Infallible>(answer.await) }
    });
    let connection = TokioIo::new(Stall::new(connection, UNREAD));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(connection, service)
        .await;
    if let Err(err) = served {
        tracing::debug!("a connection of a host link ended: {err}");
    }
}
