//! The answer of a tool that says something while it executes: lines of JSON.
//!
//! ```text
//! {"type": "custom", "name": "…", "value": …}    any number, told at once
//! {"type": "result", "value": …}  or  {"type": "error", "message": "…"}    last
//! ```

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use wire::run::{CUSTOM_NAME_LIMIT, custom};

use super::weight::Weight;
use crate::link::upstreams::{Booked, Note};

/// Bytes of a line beside its value.
const FRAME: u64 = 4 << 10;
/// Bytes of a whole answer.
const ANSWER: u64 = 64 << 20;

/// One line.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Custom {
        name: String,
        #[serde(default)]
        value: Value,
    },
    Result {
        #[serde(default)]
        value: Value,
    },
    Error {
        message: String,
    },
}

/// Why there is no result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error("{0}")]
    Said(String),
    #[error("line {number} of the tool's answer cannot be read: {problem}")]
    Bad { number: u64, problem: String },
    #[error("the answer of the tool has more than {limit} bytes{}", if *.line { " in one line" } else { "" })]
    TooLarge { limit: u64, line: bool },
    #[error("the server of the tool broke its answer off")]
    Broken,
    #[error("the answer of the tool ended without a result")]
    NoEnd,
    #[error("the run is ending")]
    Ending,
}

/// Reads lines to the last one. What comes after a result is not read.
pub(super) async fn read<B>(
    mut body: B,
    value_bytes: u64,
    notes: &mpsc::Sender<Note>,
) -> Result<Value, LineError>
where
    B: http_body::Body<Data = bytes::Bytes> + Unpin,
{
    let longest = value_bytes.saturating_add(FRAME);
    let (mut kept, mut total, mut number) = (BytesMut::new(), 0, 0);
    // Bytes of `kept` that have no line break: a long line may come byte by byte.
    let mut searched = 0;
    loop {
        let frame = body.frame().await;
        let ended = frame.is_none();
        if let Some(frame) = frame
            && let Ok(data) = frame.map_err(|_| LineError::Broken)?.into_data()
        {
            total += data.len() as u64;
            kept.extend_from_slice(&data);
        }
        if total > ANSWER {
            return Err(LineError::TooLarge { limit: ANSWER, line: false });
        }
        while let Some(at) = memchr::memchr(b'\n', &kept[searched..])
            .map(|at| searched + at)
            .or(ended.then_some(kept.len()))
        {
            let line = kept.split_to(at);
            searched = 0;
            kept.advance(usize::from(!kept.is_empty()));
            number += 1;
            if line.len() as u64 > longest {
                return Err(LineError::TooLarge { limit: longest, line: true });
            }
            if let Some(value) = take(&line, number, notes).await? {
                return Ok(value);
            }
            if ended && kept.is_empty() {
                return Err(LineError::NoEnd);
            }
        }
        searched = kept.len();
        if kept.len() as u64 > longest {
            return Err(LineError::TooLarge { limit: longest, line: true });
        }
    }
}

/// The result, when the line has it.
async fn take(
    line: &[u8],
    number: u64,
    notes: &mpsc::Sender<Note>,
) -> Result<Option<Value>, LineError> {
    let bad = |problem: &str| LineError::Bad { number, problem: problem.to_owned() };
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    if !Weight::of(line).is_bearable() {
        return Err(bad("it holds too many values, or too many within each other"));
    }
    match serde_json::from_slice(line).map_err(|err| bad(&err.to_string()))? {
        Line::Custom { name, value } => {
            // The log counts the bytes of a name as they are written in it.
            let written = serde_json::to_string(&name).map_or(usize::MAX, |name| name.len());
            if name.is_empty() || written > CUSTOM_NAME_LIMIT {
                return Err(bad("`name` is empty or too long"));
            }
            if custom::is_reserved(&name) {
                return Err(bad(&format!("no tool may tell `{name}`")));
            }
            let (booked, booking) = oneshot::channel();
            let note = Note::Custom { name, value, booked: Booked(Some(booked)) };
            notes.send(note).await.map_err(|_| LineError::Ending)?;
            // One at a time of each call: a tool that floods fills no memory. The
            // sender is dropped when it is done, or when nobody books any more.
            let _ = booking.await;
            Ok(None)
        }
        Line::Result { value } => Ok(Some(value)),
        Line::Error { message } => Err(LineError::Said(message)),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::{LineError, read};
    use crate::link::upstreams::Note;

    /// Reads a text that comes in pieces of so many bytes.
    async fn heard(text: &str, piece: usize) -> (Result<Value, LineError>, Vec<String>) {
        let pieces: Vec<_> = text
            .as_bytes()
            .chunks(piece)
            .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece))))
            .collect();
        let (sender, mut notes) = mpsc::channel(64);
        let mut names = Vec::new();
        let value = {
            let reading = read(StreamBody::new(stream::iter(pieces)), 100, &sender);
            tokio::pin!(reading);
            loop {
                tokio::select! {
                    biased;
                    Some(Note::Custom { name, booked, .. }) = notes.recv() => {
                        assert!(notes.is_empty(), "one at a time");
                        names.push(name);
                        booked.done();
                    }
                    value = &mut reading => break value,
                }
            }
        };
        (value, names)
    }

    #[tokio::test]
    async fn events_are_told_and_the_result_ends_it_however_it_is_cut() {
        let text = "{\"type\":\"custom\",\"name\":\"a\",\"value\":1}\r\n\n\
                    {\"type\":\"custom\",\"name\":\"b\"}\n{\"type\":\"result\",\"value\":[1]}";
        for piece in [1, 2, 7, 1000] {
            for end in ["", "\n", "\nnot read"] {
                let (value, names) = heard(&format!("{text}{end}"), piece).await;
                assert_eq!((value, names.join("")), (Ok(json!([1])), "ab".to_owned()));
            }
        }
    }

    #[tokio::test]
    async fn a_long_line_may_come_byte_by_byte() {
        let line = format!("{{\"type\":\"result\",\"value\":\"{}\"}}\n", "x".repeat(2 << 20));
        let bytes: Vec<_> =
            line.bytes().map(|byte| Ok::<_, Infallible>(Frame::data(vec![byte].into()))).collect();
        let (sender, _notes) = mpsc::channel(1);
        let began = std::time::Instant::now();
        let value = read(StreamBody::new(stream::iter(bytes)), 4 << 20, &sender).await.unwrap();
        assert_eq!(value.as_str().map(str::len), Some(2 << 20));
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn an_answer_that_is_none_says_what_is_wrong() {
        let check = async |text: &str, expected: &str| {
            for piece in [1, 1000] {
                let failed = heard(text, piece).await.0.unwrap_err().to_string();
                assert!(failed.contains(expected), "{failed}");
            }
        };
        check("", "without a result").await;
        check("\n\n", "without a result").await;
        check("{\"type\":\"custom\",\"name\":\"a\"}\n", "without a result").await;
        check("{\"type\":\"error\",\"message\":\"no luck\"}\n", "no luck").await;
        check("{\"type\":\"error\"}\n", "line 1").await;
        check("\n[]\n", "line 2").await;
        check("{\"type\":\"other\"}", "unknown variant `other`").await;
        check("{\"type\":\"custom\",\"name\":\"\"}\n", "`name` is empty").await;
        check("{\"type\":\"custom\",\"name\":\"file.changed\"}\n", "`file.changed`").await;
        check(&format!("{}\n", "[".repeat(101)), "within each other").await;
        check(&"x".repeat(5000), "in one line").await;
        check(&format!("{}\n", "x".repeat(5000)), "in one line").await;
    }
}
