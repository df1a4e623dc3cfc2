//! `multipart/form-data` that is read from disk as it is sent: at most one
//! piece of one file is in memory. Its length is known before it starts, so
//! that the other side can refuse it by its head.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};
use wire::hex;

use super::collect::{Asset, open};
use crate::http::Body;

/// How much of a file is sent at once.
const PIECE: u64 = 64 << 10;

/// A form with one part named `file` for each file.
#[derive(Debug)]
pub(super) struct Form {
    parts: VecDeque<Part>,
    boundary: String,
    /// Bytes that are still to be sent.
    left: u64,
}

#[derive(Debug)]
enum Part {
    Text(Bytes),
    /// A file that is not open yet.
    File {
        path: PathBuf,
        size: u64,
    },
    /// A file and how much of it is still to be sent.
    Open {
        file: File,
        left: u64,
    },
}

impl Form {
    pub(super) fn new(assets: &[Asset]) -> Form {
        // A hash of all contents: no content can have it in itself.
        let hashes =
            assets.iter().fold(Sha256::new(), |all, asset| all.chain_update(&asset.sha256));
        let boundary = format!("mayfly-{}", &hex(&hashes.finalize())[..48]);
        let mut parts = VecDeque::new();
        for asset in assets {
            let name = escaped(&asset.name);
            parts.push_back(Part::Text(Bytes::from(format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; \
                 filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
            ))));
            parts.push_back(Part::File { path: asset.path.clone(), size: asset.size });
            parts.push_back(Part::Text(Bytes::from_static(b"\r\n")));
        }
        parts.push_back(Part::Text(Bytes::from(format!("--{boundary}--\r\n"))));
        let left = parts.iter().map(Part::length).sum();
        Form { parts, boundary, left }
    }

    pub(super) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// How long the whole body is.
    pub(super) fn length(&self) -> u64 {
        self.left
    }

    pub(super) fn into_body(self) -> Body {
        self.boxed_unsync()
    }

    /// The next bytes; `None` at the end.
    fn next_bytes(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(part) = self.parts.pop_front() {
            match part {
                Part::Text(text) => return Ok(Some(text)),
                Part::File { path, size } => {
                    let file = open(&path)?;
                    self.parts.push_front(Part::Open { file, left: size });
                }
                Part::Open { left: 0, .. } => {}
                Part::Open { mut file, left } => {
                    let want = usize::try_from(left.min(PIECE)).unwrap_or(usize::MAX);
                    let mut piece = vec![0; want];
                    let count = match file.read(&mut piece) {
                        Ok(0) => return Err(shrunk()),
                        Ok(count) => count,
                        Err(err) if err.kind() == ErrorKind::Interrupted => 0,
                        Err(err) => return Err(err),
                    };
                    piece.truncate(count);
                    let left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
                    self.parts.push_front(Part::Open { file, left });
                    if count > 0 {
                        return Ok(Some(Bytes::from(piece)));
                    }
                }
            }
        }
        Ok(None)
    }
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Part::Text(text) => u64::try_from(text.len()).unwrap_or(u64::MAX),
            Part::File { size, .. } => *size,
            Part::Open { left, .. } => *left,
        }
    }
}

/// Disks are read right here: the agent has one thread, and while it writes
/// back it has nothing else to do.
impl HttpBody for Form {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = self.next_bytes().transpose();
        if let Some(Ok(bytes)) = &next {
            let sent = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            self.left = self.left.saturating_sub(sent);
        }
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn shrunk() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "a file shrank while it was sent")
}

/// A file name as browsers write it into a form.
fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::collect::Asset;
    use super::{Form, PIECE};

    fn whole(mut form: Form) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(piece) = form.next_bytes()? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    #[test]
    fn a_form_has_one_part_a_file_and_the_length_it_claims() {
        let directory = tempfile::tempdir().unwrap();
        let content = vec![7; usize::try_from(PIECE).unwrap() + 1];
        let asset = |name: &str, content: &[u8]| {
            let path = directory.path().join("file").with_extension(content.len().to_string());
            fs::write(&path, content).unwrap();
            let size = u64::try_from(content.len()).unwrap();
            Asset { path, name: name.into(), size, sha256: "aa".into() }
        };
        let assets = [asset("a\"\r\n.txt", &content), asset("ü", b"")];
        let form = Form::new(&assets);
        let boundary = form.boundary.clone();
        assert_eq!(form.content_type(), format!("multipart/form-data; boundary={boundary}"));
        let length = form.length();
        let head = |name: &str| {
            format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; \
                 filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
            )
        };
        let mut expected = head("a%22%0D%0A.txt").into_bytes();
        expected.extend_from_slice(&content);
        let rest = format!("\r\n{}\r\n--{boundary}--\r\n", head("ü"));
        expected.extend_from_slice(rest.as_bytes());
        let sent = whole(form).unwrap();
        assert_eq!(u64::try_from(sent.len()).unwrap(), length);
        assert!(sent == expected);
    }

    #[test]
    fn a_file_that_shrinks_breaks_the_body_and_one_that_grows_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, b"12345").unwrap();
        let asset = |size| Asset { path: path.clone(), name: "a".into(), size, sha256: "b".into() };
        assert!(whole(Form::new(&[asset(6)])).is_err());
        let sent = whole(Form::new(&[asset(4)])).unwrap();
        assert!(sent.windows(6).any(|window| window == b"1234\r\n"));
    }
}
