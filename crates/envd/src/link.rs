//! The host link: the sandbox's one door to its host, offered on its loopback.
//!
//! ```text
//! program inside ── TCP ──► 127.0.0.1:port (us) ── tunnel over one connection ──► host
//! ```
//!
//! The host makes that connection, as it makes all others, so nothing of the
//! host has to be visible inside, whatever the walls are made of. Its identity is
//! the connection itself. A newer one takes over from the one before: that is a
//! server that was started again. The port stays the same meanwhile.

use std::{
    cell::Cell,
    io,
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    time::Duration,
};

use rustix::net::RecvFlags;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest, copy_bidirectional},
    net::{TcpListener, TcpStream, UnixStream},
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout_at},
};
use tunnel::{LINK_GREETING, Opener};

use crate::daemon::Daemon;

/// Connections through the link at once. The next one waits to be accepted.
const CONNECTIONS: usize = 128;
/// How long a program waits for a host that is away.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait when accepting fails: usually all descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where the link leads, if it does.
pub(crate) struct Link {
    port: Cell<Option<u16>>,
    host: watch::Sender<Option<Opener>>,
    room: Semaphore,
}

impl Default for Link {
    fn default() -> Link {
        let room = Semaphore::new(CONNECTIONS);
        Link { port: Cell::new(None), host: watch::Sender::new(None), room }
    }
}

/// Whether a fresh connection is going to be the link: no request begins with
/// that byte.
pub(crate) async fn is_link(stream: &UnixStream) -> io::Result<bool> {
    let mut first = [0];
    let peek = || {
        let (read, _) = rustix::net::recv(stream, &mut first[..], RecvFlags::PEEK)?;
        Ok(read)
    };
    let read = stream.async_io(Interest::READABLE, peek).await?;
    Ok(read == 1 && first[0] == LINK_GREETING)
}

/// Carries the link until the host hangs up or another connection takes over.
pub(crate) async fn serve(daemon: &Rc<Daemon>, mut stream: UnixStream) -> io::Result<()> {
    stream.read_u8().await?;
    let port = match daemon.link.port.get() {
        Some(port) => port,
        None => offer(daemon).await?,
    };
    stream.write_u16(port).await?;
    let (opener, orders) = tunnel::opening();
    daemon.link.host.send_replace(Some(opener));
    let (mut reads, mut writes) = stream.into_split();
    tokio::select! {
        _ = tunnel::open_side(&mut reads, &mut writes, orders) => {}
        () = daemon.cut.cancelled() => {}
    }
    Ok(())
}

/// Begins to listen, on whatever port is free.
async fn offer(daemon: &Rc<Daemon>) -> io::Result<u16> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let port = listener.local_addr()?.port();
    daemon.link.port.set(Some(port));
    daemon.tasks.spawn_local(accept(Rc::clone(daemon), listener));
    Ok(port)
}

async fn accept(daemon: Rc<Daemon>, listener: TcpListener) {
    loop {
        let Ok(room) = daemon.link.room.acquire().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                room.forget();
                let daemon_of_one = Rc::clone(&daemon);
                daemon.tasks.spawn_local(async move {
                    // A connection that breaks is no news to anybody but its ends.
                    let _ = carry(&daemon_of_one, stream).await;
                    daemon_of_one.link.room.add_permits(1);
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn carry(daemon: &Daemon, mut program: TcpStream) -> io::Result<()> {
    program.set_nodelay(true)?;
    let mut host = daemon.link.host.subscribe();
    let deadline = Instant::now() + PATIENCE;
    let mut stream = loop {
        let opener = host.borrow_and_update().clone();
        if let Some(opener) = opener
            && let Ok(stream) = opener.open().await
        {
            break stream;
        }
        let changed = timeout_at(deadline, host.changed()).await;
        changed?.map_err(io::Error::other)?;
    };
    copy_bidirectional(&mut program, &mut stream).await?;
    Ok(())
}
