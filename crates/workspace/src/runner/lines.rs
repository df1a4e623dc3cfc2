//! A runner's answer, cut into lines of bounded length.

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use reqwest::Response;
use wire::run::LINE_LIMIT;

/// Most bytes that are taken at once. What is more stays in the connection,
/// which is how a runner learns that it is ahead of us.
const BATCH: usize = 1 << 20;

/// The lines of one answer.
#[derive(Debug)]
pub(crate) struct Lines {
    answer: Response,
    cutter: Cutter,
    end: Option<End>,
}

/// How the answer ended. Lines before it come first.
#[derive(Debug)]
enum End {
    Whole,
    Failed(LinesError),
}

/// Why there are no further lines.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinesError {
    #[error("the connection to the sandbox runner broke off")]
    Broken(#[source] reqwest::Error),
    #[error("the sandbox runner's stream ended in the middle of a line")]
    MidLine,
    #[error("a line of the sandbox runner is longer than {LINE_LIMIT} bytes")]
    TooLong,
}

impl Lines {
    pub(super) fn new(answer: Response) -> Lines {
        Lines { answer, cutter: Cutter::default(), end: None }
    }

    /// The lines that arrived since, at least one, without their line breaks;
    /// `None` at the end. Dropping the wait loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Bytes>>, LinesError> {
        let mut lines = Vec::new();
        while lines.is_empty() {
            match self.end.take() {
                None => {}
                Some(End::Failed(err)) => return Err(err),
                Some(End::Whole) if self.cutter.is_empty() => return Ok(None),
                Some(End::Whole) => return Err(LinesError::MidLine),
            }
            let chunk = self.answer.chunk().await;
            self.take(chunk, &mut lines);
        }
        Ok(Some(lines))
    }

    /// Takes a piece, and every further one that is there already.
    fn take(&mut self, chunk: reqwest::Result<Option<Bytes>>, lines: &mut Vec<Bytes>) {
        let mut taken = 0;
        let mut chunk = Some(chunk);
        while let Some(read) = chunk {
            match read {
                Ok(Some(bytes)) => {
                    taken += bytes.len();
                    if let Err(err) = self.cutter.push(&bytes, lines) {
                        self.end = Some(End::Failed(err));
                        return;
                    }
                }
                Ok(None) => {
                    self.end = Some(End::Whole);
                    return;
                }
                Err(err) => {
                    self.end = Some(End::Failed(LinesError::Broken(err)));
                    return;
                }
            }
            chunk = if taken < BATCH { self.answer.chunk().now_or_never() } else { None };
        }
    }
}

/// Cuts bytes into lines.
#[derive(Debug, Default)]
struct Cutter {
    rest: BytesMut,
}

impl Cutter {
    fn push(&mut self, bytes: &[u8], lines: &mut Vec<Bytes>) -> Result<(), LinesError> {
        let mut bytes = bytes;
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            self.extend(&bytes[..at])?;
            bytes = &bytes[at + 1..];
            lines.push(self.rest.split().freeze());
        }
        self.extend(bytes)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), LinesError> {
        if self.rest.len() + bytes.len() > LINE_LIMIT {
            return Err(LinesError::TooLong);
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Cutter, LINE_LIMIT, LinesError};

    #[test]
    fn lines_are_the_same_however_the_bytes_were_split() {
        let text = b"one\n\ntwo\r\nthree";
        for first in 0..=text.len() {
            let (mut cutter, mut lines) = (Cutter::default(), Vec::new());
            cutter.push(&text[..first], &mut lines).unwrap();
            cutter.push(&text[first..], &mut lines).unwrap();
            assert_eq!(lines, ["one", "", "two\r"], "split at {first}");
            assert!(!cutter.is_empty());
        }
    }

    #[test]
    fn a_line_has_an_end_to_its_length() {
        let (mut cutter, mut lines) = (Cutter::default(), Vec::new());
        cutter.push(&vec![b'x'; LINE_LIMIT], &mut lines).unwrap();
        let refused = cutter.push(b"x", &mut lines);
        assert!(matches!(refused, Err(LinesError::TooLong)));
    }
}
