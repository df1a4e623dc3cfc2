//! Accepts connections and finds out what a request wants.
//!
//! The socket is the host's: its proxy forwards clients' calls of
//! `process.Process` and keeps `/control` and `/init` to itself.

use std::{convert::Infallible, rc::Rc, time::Duration};

use http::{Method, Request, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use tokio::net::{UnixListener, UnixStream};
use wire::{Code, ConnectError, Init};

use crate::{
    connect::{self, Answer, AnswerBody},
    control::ControlBody,
    daemon::Daemon,
    flush_watch::{Connection, FlushWatch},
    link, rpc,
};

/// Bytes hyper takes ahead of what a connection has accepted.
const WRITE_AHEAD: usize = 64 << 10;
/// How long to wait when accepting fails: usually all descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves every connection that comes in. Never returns.
pub(crate) async fn accept(daemon: &Rc<Daemon>, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                daemon.tasks.spawn_local(connection(Rc::clone(daemon), stream));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves one connection, whatever it turns out to be.
pub(crate) async fn connection(daemon: Rc<Daemon>, stream: UnixStream) {
    match link::is_link(&stream).await {
        Ok(false) => requests(daemon, stream).await,
        // The host hears of a link that failed by its end.
        Ok(true) => _ = link::serve(&daemon, stream).await,
        Err(_) => {}
    }
}

/// Serves a connection's requests. At the end of the sandbox it is dropped as it
/// is, unless the host has yet to read from it.
async fn requests(daemon: Rc<Daemon>, stream: UnixStream) {
    let connection = Rc::new(Connection::default());
    let io = FlushWatch::new(stream, Rc::clone(&connection), Rc::clone(&daemon));
    let service = service_fn(|request| {
        let (daemon, connection) = (Rc::clone(&daemon), Rc::clone(&connection));
        async move { Ok::<_, Infallible>(route(daemon, connection, request).await) }
    });
    let served = http1::Builder::new()
        .auto_date_header(false)
        .max_buf_size(WRITE_AHEAD)
        .serve_connection(io, service);
    let cut = async {
        daemon.cut.cancelled().await;
        if connection.control.get().is_some() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // A client that hangs up is no news.
        _ = served => {}
        () = cut => {}
    }
}

async fn route(
    daemon: Rc<Daemon>,
    connection: Rc<Connection>,
    request: Request<Incoming>,
) -> Answer {
    let path = request.uri().path();
    if let Some(method) = path.strip_prefix("/process.Process/") {
        return match rpc::Method::parse(method) {
            None => connect::unknown_method(method),
            Some(_) if request.method() != Method::POST => connect::wrong_method("POST"),
            Some(method) => rpc::call(daemon, method, request).await,
        };
    }
    match (path, request.method()) {
        ("/health", &Method::GET) => connect::empty(StatusCode::NO_CONTENT),
        ("/health", _) => connect::wrong_method("GET"),
        ("/control", &Method::GET) => control(daemon, &connection),
        ("/control", _) => connect::wrong_method("GET"),
        ("/init", &Method::POST) => init(&daemon, request).await,
        ("/init", _) => connect::wrong_method("POST"),
        (_, _) => connect::unary_error(&ConnectError::new(Code::NotFound, "no such route")),
    }
}

/// The host's view. A hang-up means nothing; the next one starts with a snapshot.
fn control(daemon: Rc<Daemon>, connection: &Connection) -> Answer {
    let link = daemon.control.attach();
    connection.control.set(Some(link));
    let body = ControlBody::new(daemon, link);
    connect::answer(StatusCode::OK, "application/x-ndjson", AnswerBody::Control(body))
}

/// What the host decides when the sandbox is claimed.
async fn init(daemon: &Daemon, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let encoding = parts.headers.get(header::CONTENT_ENCODING);
    let init = match connect::read_whole(body, encoding).await {
        Ok(payload) => serde_json::from_slice::<Init>(&payload)
            .map_err(|err| ConnectError::new(Code::InvalidArgument, err.to_string())),
        Err(err) => Err(err),
    };
    match init {
        Ok(init) => {
            daemon.claim.replace(init);
            connect::empty(StatusCode::NO_CONTENT)
        }
        Err(err) => connect::unary_error(&err),
    }
}
