//! `Update`: a terminal's new size. For a command without a terminal it is
//! accepted and means nothing.

use bytes::Bytes;
use wire::{
    Codec, ConnectError,
    process::{UpdateRequest, UpdateResponse},
};

use crate::{daemon::Daemon, fault::Fault};

pub(super) fn update(daemon: &Daemon, codec: Codec, payload: &[u8]) -> Result<Bytes, ConnectError> {
    let request: UpdateRequest = codec.decode(payload)?;
    let command = daemon.table.find_running(&request.process).map_err(|err| err.answer())?;
    if let Some(size) = request.pty.size.as_option() {
        command.input.resize(size).map_err(|err| err.answer())?;
    }
    Ok(codec.encode(&UpdateResponse {}))
}
