//! Reads the messages of a request, never more of it than a message may have.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use wire::{
    Code, Codec, ConnectError, Envelope, EnvelopeDecoder, EnvelopeError, MESSAGE_LIMIT, unpack_gzip,
};

/// Bytes an envelope has beside its message.
const ENVELOPE_HEADER: usize = 5;
/// Bytes after which a body that is too long is not read any further.
const DISCARDED: usize = 64 << 20;
/// How long a refused client may take to see that it is.
const REFUSAL: Duration = Duration::from_millis(100);

/// Reads the message of a unary call: the whole body, which may be packed.
pub(crate) async fn read_whole(
    body: Incoming,
    encoding: Option<&HeaderValue>,
) -> Result<Bytes, ConnectError> {
    let packing = Packing::of(encoding)?;
    let body = collect(body, MESSAGE_LIMIT).await?;
    match packing {
        Packing::None => Ok(body),
        Packing::Gzip => Ok(unpack_gzip(&body, MESSAGE_LIMIT)?),
    }
}

/// Reads the one message of a server-streaming call. It is in an envelope; a
/// body that begins with a brace is taken for the bare message.
pub(crate) async fn read_one(
    codec: Codec,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Bytes, ConnectError> {
    // Both packings are fine: each envelope says whether it is packed.
    Packing::of(headers.get("connect-content-encoding"))?;
    let body = collect(body, MESSAGE_LIMIT + ENVELOPE_HEADER).await?;
    if codec == Codec::Json && body.first() == Some(&b'{') {
        return Ok(body);
    }
    let mut decoder = EnvelopeDecoder::new(MESSAGE_LIMIT);
    decoder.push(&body);
    let message = match decoder.pop()? {
        Some(Envelope::Message(message)) => message,
        Some(Envelope::End(_)) => return Err(invalid("request has no message")),
        None => {
            decoder.finish()?;
            return Err(invalid("request has no message"));
        }
    };
    decoder.finish().map_err(|_| invalid("request has more than one message"))?;
    Ok(message)
}

/// The messages of a client-streaming call, as they arrive.
pub(crate) struct Messages {
    body: Incoming,
    decoder: EnvelopeDecoder,
}

impl Messages {
    pub(crate) fn new(headers: &HeaderMap, body: Incoming) -> Result<Messages, ConnectError> {
        Packing::of(headers.get("connect-content-encoding"))?;
        Ok(Messages { body, decoder: EnvelopeDecoder::new(MESSAGE_LIMIT) })
    }

    /// Reads on for a moment and throws it away. A connection that is closed on
    /// a client that still writes can take the answer with it.
    pub(crate) async fn discard(&mut self) {
        let rest = async { while let Some(Ok(_)) = self.body.frame().await {} };
        // One that goes on writing is refused all the same.
        let _ = tokio::time::timeout(REFUSAL, rest).await;
    }

    /// The next message; `None` when the client has sent its last.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ConnectError> {
        loop {
            match self.decoder.pop()? {
                Some(Envelope::Message(message)) => return Ok(Some(message)),
                Some(Envelope::End(_)) => return Ok(None),
                None => {}
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Some(piece) = frame.map_err(|_| broken())?.data_ref() {
                        self.decoder.push(piece);
                    }
                }
                None => {
                    self.decoder.finish()?;
                    return Ok(None);
                }
            }
        }
    }
}

enum Packing {
    None,
    Gzip,
}

impl Packing {
    fn of(encoding: Option<&HeaderValue>) -> Result<Packing, ConnectError> {
        match encoding.map(HeaderValue::as_bytes) {
            None | Some(b"" | b"identity") => Ok(Packing::None),
            Some(b"gzip") => Ok(Packing::Gzip),
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                let message = format!("content encoding '{other}' is not supported; use gzip");
                Err(ConnectError::new(Code::Unimplemented, message))
            }
        }
    }
}

/// Reads a body of up to `limit` bytes. The rest of a longer one is read and
/// thrown away, because a client that still writes may not see our answer.
async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, ConnectError> {
    let mut whole = BytesMut::new();
    let mut length = 0;
    while length <= DISCARDED
        && let Some(frame) = body.frame().await
    {
        let Ok(piece) = frame.map_err(|_| broken())?.into_data() else { continue };
        length += piece.len();
        if length <= limit {
            whole.extend_from_slice(&piece);
        } else {
            whole = BytesMut::new();
        }
    }
    if length > limit {
        return Err(EnvelopeError::TooLarge { limit: MESSAGE_LIMIT }.into());
    }
    Ok(whole.freeze())
}

fn broken() -> ConnectError {
    ConnectError::new(Code::Canceled, "request broke off")
}

fn invalid(message: &str) -> ConnectError {
    ConnectError::new(Code::InvalidArgument, message)
}
