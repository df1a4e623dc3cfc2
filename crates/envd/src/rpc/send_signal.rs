//! `SendSignal`: SIGTERM or SIGKILL for a command and its process group.
//!
//! The command is booked as killed before it is gone, and leaves `List` at once.
//! Its streams go on until it ends, and it can be signalled again.

use bytes::Bytes;
use rustix::process::Signal;
use wire::{
    Code, Codec, ConnectError,
    process::{self, SendSignalResponse, parse_send_signal},
};

use crate::{daemon::Daemon, fault::Fault};

pub(super) async fn send_signal(
    daemon: &Daemon,
    codec: Codec,
    payload: &[u8],
) -> Result<Bytes, ConnectError> {
    let request = parse_send_signal(codec, payload)?;
    let signal = match request.known_signal() {
        Ok(process::Signal::SIGNAL_SIGTERM) => Signal::TERM,
        Ok(process::Signal::SIGNAL_SIGKILL) => Signal::KILL,
        Ok(process::Signal::SIGNAL_UNSPECIFIED) => return Err(unknown_signal(0)),
        Err(number) => return Err(unknown_signal(number)),
    };
    let command = daemon.table.find_running(&request.process).map_err(|err| err.answer())?;
    // Booked before the signal arrives: its end must not be booked as an error.
    let booked = daemon.book_killed(&command);
    command.signal(signal);
    daemon.told(booked).await;
    if signal == Signal::KILL {
        command.soon_gone().await;
    }
    Ok(codec.encode(&SendSignalResponse {}))
}

fn unknown_signal(number: i32) -> ConnectError {
    let message = format!("signal {number} is not supported: send SIGTERM (15) or SIGKILL (9)");
    ConnectError::new(Code::InvalidArgument, message)
}
