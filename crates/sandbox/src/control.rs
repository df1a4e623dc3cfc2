//! Reads a sandbox's control stream into its books and its log.
//!
//! The stream comes out of a sandbox, so it is hostile: lines are bounded, and
//! a line that does not parse ends the reading rather than the server.

use chrono::Utc;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use wire::{ControlMessage, SandboxId};

use crate::{Commands, Log};

/// A line may carry a command with all its arguments.
const LINE_LIMIT: usize = 8 << 20;

/// Reads until the sandbox closes the stream or breaks its rules.
pub(crate) async fn follow(id: &SandboxId, mut stream: Incoming, commands: &Commands, log: &Log) {
    let mut lines = Lines::default();
    while let Some(Ok(frame)) = stream.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let result = lines.push(&data, |line| match serde_json::from_slice(line) {
            Ok(message) => {
                let message: ControlMessage = message;
                commands.apply(message, Utc::now(), log);
                Ok(())
            }
            Err(_) => Err(Broken::Malformed),
        });
        if let Err(broken) = result {
            tracing::warn!(sandbox.id = %id, "sandbox {id} broke its control stream: {broken}");
            return;
        }
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum Broken {
    #[error("a line is no message")]
    Malformed,
    #[error("a line is longer than {LINE_LIMIT} bytes")]
    TooLong,
}

/// Cuts a byte stream at newlines.
#[derive(Default)]
struct Lines {
    tail: Vec<u8>,
}

impl Lines {
    fn push(
        &mut self,
        mut data: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        while let Some(at) = data.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&data[..at], &data[at + 1..]);
            data = rest;
            if self.tail.is_empty() {
                each(line)?;
            } else {
                self.tail.extend_from_slice(line);
                each(&std::mem::take(&mut self.tail))?;
            }
        }
        self.tail.extend_from_slice(data);
        if self.tail.len() > LINE_LIMIT {
            return Err(Broken::TooLong);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Broken, LINE_LIMIT, Lines};

    #[test]
    fn lines_survive_any_split() {
        for cut in 1..9 {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for piece in b"one\ntwo\n\nthree\n".chunks(cut) {
                let each = |line: &[u8]| {
                    seen.push(String::from_utf8(line.to_vec()).unwrap());
                    Ok(())
                };
                lines.push(piece, each).unwrap();
            }
            assert_eq!(seen, ["one", "two", "", "three"]);
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = Lines::default();
        let result = lines.push(&vec![b'x'; LINE_LIMIT + 1], |_| Ok(()));
        assert_eq!(result, Err(Broken::TooLong));
    }
}
