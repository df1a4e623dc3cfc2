//! What travels: nine bytes of header, and after a `Data` header its bytes.
//!
//! ```text
//! stream: u32  kind: u8  length: u32      all big-endian
//! ```
//!
//! The length is that of the data, or the credit that a `Window` gives.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of a header.
const HEADER: usize = 9;
/// Most bytes that one frame carries: small enough that streams take turns.
pub(crate) const CHUNK: usize = 32 << 10;
/// Bytes that one stream may have on the way.
pub(crate) const WINDOW: usize = 256 << 10;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A side is there: its first frame. The accepting side answers with it.
    Hello,
    /// A new connection.
    Open(u32),
    /// Bytes of a connection.
    Data(u32, Vec<u8>),
    /// No more data comes.
    End(u32),
    /// The connection is over in both directions.
    Reset(u32),
    /// So many more bytes may come.
    Window(u32, u32),
    /// The session is over. The sender's last frame.
    Finish,
}

/// A peer that does not keep to the rules.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum BadFrame {
    #[error("frame of unknown kind {0}")]
    Kind(u8),
    #[error("frame of length {0}, which its kind cannot have")]
    Length(u32),
}

impl Frame {
    /// Appends the frame's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (stream, kind, length) = match self {
            Frame::Hello => (0, 1, 0),
            Frame::Open(stream) => (*stream, 2, 0),
            // A chunk is far below four gigabytes.
            Frame::Data(stream, data) => (*stream, 3, data.len() as u32),
            Frame::End(stream) => (*stream, 4, 0),
            Frame::Reset(stream) => (*stream, 5, 0),
            Frame::Window(stream, credit) => (*stream, 6, *credit),
            Frame::Finish => (0, 7, 0),
        };
        out.extend(u32::to_be_bytes(stream));
        out.push(kind);
        out.extend(u32::to_be_bytes(length));
        if let Frame::Data(_, data) = self {
            out.extend(data);
        }
    }

    /// Reads the next frame. `None` at the end of the input, also amid a frame:
    /// a peer that dies is not at fault.
    pub(crate) async fn read(input: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
        let mut header = [0; HEADER];
        if read_whole(input, &mut header).await?.is_none() {
            return Ok(None);
        }
        let [s0, s1, s2, s3, kind, l0, l1, l2, l3] = header;
        let stream = u32::from_be_bytes([s0, s1, s2, s3]);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let limit = match kind {
            3 => CHUNK,
            6 => WINDOW,
            _ => 0,
        };
        if length as usize > limit {
            return Err(io::Error::other(BadFrame::Length(length)));
        }
        Ok(Some(match kind {
            1 => Frame::Hello,
            2 => Frame::Open(stream),
            3 => {
                let mut data = vec![0; length as usize];
                if read_whole(input, &mut data).await?.is_none() {
                    return Ok(None);
                }
                Frame::Data(stream, data)
            }
            4 => Frame::End(stream),
            5 => Frame::Reset(stream),
            6 => Frame::Window(stream, length),
            7 => Frame::Finish,
            other => return Err(io::Error::other(BadFrame::Kind(other))),
        }))
    }
}

async fn read_whole(
    input: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
) -> io::Result<Option<()>> {
    match input.read_exact(buffer).await {
        Ok(_) => Ok(Some(())),
        Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(err) => Err(err),
    }
}

#[cfg(test)]
mod tests {
    use super::Frame;

    #[tokio::test]
    async fn frames_have_these_bytes() {
        let golden: [(Frame, &[u8]); 7] = [
            (Frame::Hello, &[0, 0, 0, 0, 1, 0, 0, 0, 0]),
            (Frame::Open(1), &[0, 0, 0, 1, 2, 0, 0, 0, 0]),
            (Frame::Data(258, b"hi".into()), &[0, 0, 1, 2, 3, 0, 0, 0, 2, b'h', b'i']),
            (Frame::End(3), &[0, 0, 0, 3, 4, 0, 0, 0, 0]),
            (Frame::Reset(3), &[0, 0, 0, 3, 5, 0, 0, 0, 0]),
            (Frame::Window(3, 65536), &[0, 0, 0, 3, 6, 0, 1, 0, 0]),
            (Frame::Finish, &[0, 0, 0, 0, 7, 0, 0, 0, 0]),
        ];
        for (frame, bytes) in golden {
            let mut encoded = Vec::new();
            frame.encode(&mut encoded);
            assert_eq!(encoded, bytes, "{frame:?}");
            assert_eq!(Frame::read(&mut &bytes[..]).await.unwrap(), Some(frame));
        }
    }

    #[tokio::test]
    async fn a_frame_that_no_peer_of_ours_sends_is_refused() {
        let too_long = [0, 0, 0, 1, 3, 0, 1, 0, 0];
        let unknown = [0, 0, 0, 1, 9, 0, 0, 0, 0];
        let with_length = [0, 0, 0, 1, 4, 0, 0, 0, 1];
        for bytes in [too_long, unknown, with_length] {
            assert!(Frame::read(&mut &bytes[..]).await.is_err(), "{bytes:?}");
        }
        assert_eq!(Frame::read(&mut &[0, 0][..]).await.unwrap(), None);
    }
}
