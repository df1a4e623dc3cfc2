//! `Connect`: another stream of a command that was started earlier, finished
//! ones included for a while. A hang-up means nothing to the command, and the
//! time limit is the stream's alone.

use http::HeaderMap;
use hyper::body::Incoming;
use tokio::time::Instant;
use wire::{Codec, ConnectError, process::ConnectRequest};

use crate::{
    connect::{Answer, Metadata, events, read_one},
    daemon::Daemon,
    fault::Fault,
    reader::Reader,
};

pub(super) async fn connect(
    daemon: &Daemon,
    codec: Codec,
    metadata: Metadata,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Answer, ConnectError> {
    let deadline = metadata.timeout.map(|timeout| Instant::now() + timeout);
    let payload = read_one(codec, headers, body).await?;
    let request: ConnectRequest = codec.decode(&payload)?;
    let command = daemon.table.find(&request.process).map_err(|err| err.answer())?;
    let reader = Reader::attach(command, metadata.begin, codec, metadata.keepalive);
    Ok(events(codec, reader.until(deadline)))
}
