//! `SendInput`, `StreamInput` and `CloseStdin`: what clients write to a command.

use std::rc::Rc;

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::Incoming;
use wire::{
    Code, Codec, ConnectError,
    process::{
        CloseStdinRequest, CloseStdinResponse, ProcessInput, SendInputRequest, SendInputResponse,
        StreamInputRequest, StreamInputResponse, process_input, stream_input_request,
    },
};

use crate::{
    command::Command,
    connect::{Answer, Messages, single},
    daemon::Daemon,
    fault::Fault,
    input::{InputError, Target},
};

pub(super) async fn send_input(
    daemon: &Daemon,
    codec: Codec,
    payload: &[u8],
) -> Result<Bytes, ConnectError> {
    let request: SendInputRequest = codec.decode(payload)?;
    let command = daemon.table.find_running(&request.process).map_err(|err| err.answer())?;
    write(&command, &request.input).await?;
    Ok(codec.encode(&SendInputResponse {}))
}

/// Writes messages as they arrive, so a slow command slows its client down.
pub(super) async fn stream_input(
    daemon: &Daemon,
    codec: Codec,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Answer, ConnectError> {
    let mut messages = Messages::new(headers, body)?;
    let fed = feed(daemon, codec, &mut messages).await;
    if fed.is_err() {
        messages.discard().await;
    }
    fed.map(|()| single(codec, &codec.encode(&StreamInputResponse {})))
}

async fn feed(daemon: &Daemon, codec: Codec, messages: &mut Messages) -> Result<(), ConnectError> {
    let mut command: Option<Rc<Command>> = None;
    while let Some(payload) = messages.next().await? {
        let request: StreamInputRequest = codec.decode(&payload)?;
        match request.event {
            Some(stream_input_request::Event::Start(start)) => {
                let found = daemon.table.find_running(&start.process);
                command = Some(found.map_err(|err| err.answer())?);
            }
            Some(stream_input_request::Event::Data(data)) => {
                let Some(command) = &command else {
                    return Err(invalid("the first message must name the process"));
                };
                write(command, &data.input).await?;
            }
            Some(stream_input_request::Event::Keepalive(_)) => {}
            None => return Err(invalid("message has no event")),
        }
    }
    if command.is_none() {
        return Err(invalid("request has no message"));
    }
    Ok(())
}

pub(super) fn close_stdin(
    daemon: &Daemon,
    codec: Codec,
    payload: &[u8],
) -> Result<Bytes, ConnectError> {
    let request: CloseStdinRequest = codec.decode(payload)?;
    let command = daemon.table.find_running(&request.process).map_err(|err| err.answer())?;
    command.input.close().map_err(|err| explain(&command, &err))?;
    Ok(codec.encode(&CloseStdinResponse {}))
}

async fn write(command: &Command, input: &ProcessInput) -> Result<(), ConnectError> {
    let (target, bytes) = match &input.input {
        Some(process_input::Input::Stdin(bytes)) => (Target::Stdin, bytes),
        Some(process_input::Input::Pty(bytes)) => (Target::Pty, bytes),
        None => return Err(invalid("input has neither stdin nor pty")),
    };
    command.input.write(target, bytes).await.map_err(|err| explain(command, &err))
}

fn explain(command: &Command, err: &InputError) -> ConnectError {
    ConnectError::new(err.code(), format!("process {}: {err}", command.wire_pid()))
}

fn invalid(message: &str) -> ConnectError {
    ConnectError::new(Code::InvalidArgument, message)
}
