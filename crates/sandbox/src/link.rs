//! The host's end of a sandbox's link: connections that programs inside make to
//! their own loopback arrive here. Whoever holds it decides what they reach.

use std::{io, time::Duration};

use isolate::Instance;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tunnel::{Accepted, LINK_GREETING};

/// How long envd may take to offer the link.
const ANSWER: Duration = Duration::from_secs(10);

/// The sandbox does not offer a link.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox does not open its link to the host")]
pub struct LinkError(#[from] io::Error);

/// An open link. Dropping it closes every connection through it.
pub struct Link {
    port: u16,
    connections: Accepted,
    _open: DropGuard,
}

impl Link {
    pub(crate) async fn open(
        instance: &dyn Instance,
        tasks: &TaskTracker,
        gone: &CancellationToken,
    ) -> Result<Link, LinkError> {
        let greeting = async {
            let mut stream = instance.dial().await?;
            stream.write_u8(LINK_GREETING).await?;
            let port = stream.read_u16().await?;
            Ok::<_, io::Error>((stream, port))
        };
        let (stream, port) = timeout(ANSWER, greeting).await.map_err(io::Error::from)??;
        let (accepted, connections) = tunnel::accepting();
        let closed = gone.child_token();
        let open = closed.clone().drop_guard();
        tasks.spawn(async move {
            let (mut reads, mut writes) = stream.into_split();
            tokio::select! {
                _ = tunnel::accept_side(&mut reads, &mut writes, &accepted) => {}
                () = closed.cancelled() => {}
            }
        });
        Ok(Link { port, connections, _open: open })
    }

    /// Where programs inside find it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The next connection from inside; `None` when there will be no more.
    pub async fn accept(&mut self) -> Option<UnixStream> {
        self.connections.recv().await
    }
}
