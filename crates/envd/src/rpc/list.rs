//! `List`: the commands that run and that nobody has signalled.

use bytes::Bytes;
use wire::{
    Codec, ConnectError,
    process::{ListRequest, ListResponse, ProcessInfo},
};

use crate::daemon::Daemon;

pub(super) fn list(daemon: &Daemon, codec: Codec, payload: &[u8]) -> Result<Bytes, ConnectError> {
    let _: ListRequest = codec.decode(payload)?;
    let running = daemon.table.running();
    let listed = running.iter().filter(|command| command.is_listed());
    let processes = listed.map(|command| ProcessInfo {
        config: command.config.clone().into(),
        pid: command.wire_pid(),
        tag: command.tag.clone(),
    });
    Ok(codec.encode(&ListResponse { processes: processes.collect() }))
}
