//! Connect's stream frames: one flag byte, four length bytes, the payload.
//!
//! ```text
//! ┌─ flags ─┬─ length, big endian ─┬─ payload ─┐
//! │ 1 byte  │ 4 bytes              │ length    │    0x01 gzip, 0x02 end of stream
//! └─────────┴──────────────────────┴───────────┘
//! ```

use std::io::Read;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{Code, ConnectError};

/// Largest message accepted unless the caller says otherwise.
pub const MESSAGE_LIMIT: usize = 4 << 20;

const HEADER: usize = 5;
const COMPRESSED: u8 = 0x01;
const END_OF_STREAM: u8 = 0x02;

/// One decoded frame, already uncompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// A message of the stream.
    Message(Bytes),
    /// The last frame: `{}` or `{"error":…}`.
    End(Bytes),
}

/// Why bytes are not a stream of envelopes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvelopeError {
    /// The length, or the size after unpacking, is over the limit.
    #[error("message is larger than {limit} bytes")]
    TooLarge {
        /// The limit in force.
        limit: usize,
    },
    /// A flag that no version of Connect defines.
    #[error("envelope has unknown flags {0:#04x}")]
    Flags(u8),
    /// The compressed flag is set and the payload is not gzip.
    #[error("compressed envelope is not valid gzip")]
    Gzip,
    /// The input ended inside a frame.
    #[error("envelope is truncated: {missing} bytes are missing")]
    Truncated {
        /// How many bytes the header promised and the body did not have.
        missing: usize,
    },
}

impl From<EnvelopeError> for ConnectError {
    fn from(err: EnvelopeError) -> ConnectError {
        let code = match &err {
            EnvelopeError::TooLarge { .. } => Code::ResourceExhausted,
            EnvelopeError::Flags(_) | EnvelopeError::Gzip | EnvelopeError::Truncated { .. } => {
                Code::InvalidArgument
            }
        };
        ConnectError::new(code, err.to_string())
    }
}

/// Appends one message frame.
pub fn frame(payload: &[u8], out: &mut BytesMut) {
    put_header(0, payload.len(), out);
    out.put_slice(payload);
}

/// The frame that closes a stream, with or without an error.
pub fn end_of_stream(error: Option<&ConnectError>) -> Bytes {
    let payload = match error {
        None => "{}".to_owned(),
        Some(error) => format!(r#"{{"error":{}}}"#, error.to_json()),
    };
    let mut out = BytesMut::with_capacity(HEADER + payload.len());
    put_header(END_OF_STREAM, payload.len(), &mut out);
    out.put_slice(payload.as_bytes());
    out.freeze()
}

/// Appends a frame's header. Payloads of ours are bounded far below 4 GiB.
pub(crate) fn put_header(flags: u8, length: usize, out: &mut BytesMut) {
    debug_assert!(u32::try_from(length).is_ok());
    out.put_u8(flags);
    out.put_u32(length as u32);
}

/// Cuts a byte stream into frames, however the stream was split on its way.
#[derive(Debug)]
pub struct EnvelopeDecoder {
    buffer: BytesMut,
    limit: usize,
}

impl EnvelopeDecoder {
    /// A decoder that refuses messages over `limit` bytes.
    pub fn new(limit: usize) -> EnvelopeDecoder {
        EnvelopeDecoder { buffer: BytesMut::new(), limit }
    }

    /// Adds input. Call `pop` until it has nothing before adding more, and
    /// the buffer never holds more than one message and one piece of input.
    pub fn push(&mut self, input: &[u8]) {
        self.buffer.extend_from_slice(input);
    }

    /// The next whole frame, or `None` until more input arrives.
    pub fn pop(&mut self) -> Result<Option<Envelope>, EnvelopeError> {
        let Some((flags, length)) = self.header() else {
            return Ok(None);
        };
        if flags & !(COMPRESSED | END_OF_STREAM) != 0 {
            return Err(EnvelopeError::Flags(flags));
        }
        if length > self.limit {
            return Err(EnvelopeError::TooLarge { limit: self.limit });
        }
        if self.buffer.len() < HEADER + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        let payload = self.buffer.split_to(length).freeze();
        let payload =
            if flags & COMPRESSED == 0 { payload } else { unpack_gzip(&payload, self.limit)? };
        Ok(Some(if flags & END_OF_STREAM == 0 {
            Envelope::Message(payload)
        } else {
            Envelope::End(payload)
        }))
    }

    /// Says whether the input may end here, or how much is missing.
    pub fn finish(&self) -> Result<(), EnvelopeError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let whole = HEADER + self.header().map_or(0, |(_, length)| length);
        Err(EnvelopeError::Truncated { missing: whole.saturating_sub(self.buffer.len()) })
    }

    fn header(&self) -> Option<(u8, usize)> {
        let header: &[u8; HEADER] = self.buffer.first_chunk()?;
        let [flags, length @ ..] = *header;
        Some((flags, u32::from_be_bytes(length) as usize))
    }
}

/// Unpacks gzip, refusing what grows over `limit` bytes before it has grown.
/// Unary bodies are packed whole, with no envelope around them.
pub fn unpack_gzip(payload: &[u8], limit: usize) -> Result<Bytes, EnvelopeError> {
    let mut unpacked = Vec::new();
    // One byte over the limit is enough to know that it is too large.
    flate2::read::GzDecoder::new(payload)
        .take(limit as u64 + 1)
        .read_to_end(&mut unpacked)
        .map_err(|_| EnvelopeError::Gzip)?;
    if unpacked.len() > limit {
        return Err(EnvelopeError::TooLarge { limit });
    }
    Ok(unpacked.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::{Envelope, EnvelopeDecoder, EnvelopeError, end_of_stream, frame};
    use crate::{Code, ConnectError};

    fn decode(input: &[u8], limit: usize) -> Result<Vec<Envelope>, EnvelopeError> {
        let mut decoder = EnvelopeDecoder::new(limit);
        decoder.push(input);
        let mut all = Vec::new();
        while let Some(envelope) = decoder.pop()? {
            all.push(envelope);
        }
        decoder.finish()?;
        Ok(all)
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        let packed = encoder.finish().unwrap();
        let mut out = vec![1];
        out.extend((packed.len() as u32).to_be_bytes());
        out.extend(packed);
        out
    }

    #[test]
    fn a_message_frame_has_golden_bytes() {
        let mut out = BytesMut::new();
        frame(br#"{"event":{"start":{"pid":12345}}}"#, &mut out);
        assert_eq!(&out[..], b"\x00\x00\x00\x00\x21{\"event\":{\"start\":{\"pid\":12345}}}");
    }

    #[test]
    fn the_end_frame_has_golden_bytes_with_and_without_an_error() {
        assert_eq!(&end_of_stream(None)[..], b"\x02\x00\x00\x00\x02{}");
        let error = ConnectError::new(Code::NotFound, "gone");
        assert_eq!(
            &end_of_stream(Some(&error))[..],
            b"\x02\x00\x00\x00\x2f{\"error\":{\"code\":\"not_found\",\"message\":\"gone\"}}"
        );
    }

    #[test]
    fn a_gzip_frame_is_unpacked_and_a_bomb_is_refused() {
        assert_eq!(decode(&gzip(b"hello"), 100), Ok(vec![Envelope::Message("hello".into())]));
        let bomb = gzip(&vec![0; 1 << 20]);
        assert_eq!(decode(&bomb, 4096), Err(EnvelopeError::TooLarge { limit: 4096 }));
        assert_eq!(decode(b"\x01\0\0\0\x02{}", 100), Err(EnvelopeError::Gzip));
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_its_bytes_arrive() {
        let result = decode(b"\0\xff\xff\xff\xff", 100);
        assert_eq!(result, Err(EnvelopeError::TooLarge { limit: 100 }));
        let error = ConnectError::from(EnvelopeError::TooLarge { limit: 100 });
        assert_eq!(error.code, Code::ResourceExhausted);
    }

    #[test]
    fn a_truncated_frame_and_an_unknown_flag_say_so() {
        assert_eq!(decode(b"\0\0\0\0\x05ab", 100), Err(EnvelopeError::Truncated { missing: 3 }));
        assert_eq!(decode(b"\0\0", 100), Err(EnvelopeError::Truncated { missing: 3 }));
        assert_eq!(decode(b"\x80\0\0\0\0", 100), Err(EnvelopeError::Flags(0x80)));
    }

    proptest! {
        #[test]
        fn frames_survive_any_split(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
            cuts in prop::collection::vec(1usize..50, 1..40),
        ) {
            let mut stream = BytesMut::new();
            for message in &messages {
                frame(message, &mut stream);
            }
            stream.extend_from_slice(&end_of_stream(None));
            let mut decoder = EnvelopeDecoder::new(4096);
            let mut seen = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, tail) = rest.split_at((*cut).min(rest.len()));
                rest = tail;
                decoder.push(piece);
                while let Some(envelope) = decoder.pop().unwrap() {
                    seen.push(envelope);
                }
            }
            prop_assert!(decoder.finish().is_ok());
            let mut expected: Vec<_> =
                messages.into_iter().map(|m| Envelope::Message(m.into())).collect();
            expected.push(Envelope::End("{}".into()));
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = decode(&input, 256);
        }
    }
}
