//! Server-sent events: how they are written, and a reader for any of them.
//!
//! The reader follows the HTML standard's parser, in pieces of any size and
//! within a limit, since what it reads comes from strangers. The one thing left
//! out is `retry`: when to connect again is the caller's to decide.

use bytes::{Buf, BytesMut};

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its kind; `None` stands for `message`.
    pub event: Option<String>,
    /// The last id that the stream gave, with this event or before.
    pub id: Option<String>,
    /// What it says.
    pub data: String,
}

/// The stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub struct TooLong {
    /// Bytes allowed.
    pub limit: usize,
}

/// Appends one event. Every line of `data` becomes a line of its own, so that
/// its line breaks survive; what follows a line break in `event` is left out.
pub fn encode(event: Option<&str>, id: Option<u64>, data: &str, out: &mut Vec<u8>) {
    if let Some(event) = event {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(split_line(event.as_bytes()).0);
        out.push(b'\n');
    }
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    let mut rest = Some(data.as_bytes());
    while let Some(text) = rest {
        let (line, after) = split_line(text);
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
        rest = after;
    }
    out.push(b'\n');
}

/// The first line, and what comes after its line break.
fn split_line(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(end) = memchr::memchr2(b'\r', b'\n', text) else {
        return (text, None);
    };
    let (line, rest) = text.split_at(end);
    let rest = rest.strip_prefix(b"\r\n").unwrap_or(&rest[1..]);
    (line, Some(rest))
}

/// Reads events from a stream of bytes that comes in pieces.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// Bytes at the front of the buffer that hold no line break.
    searched: usize,
    /// The last line ended with CR; an LF right after it belongs to it.
    after_return: bool,
    first_line: bool,
    failed: bool,
    limit: usize,
    event: Option<String>,
    id: Option<String>,
    data: Option<String>,
}

impl Decoder {
    /// A reader that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Decoder {
        Decoder {
            buffer: BytesMut::new(),
            searched: 0,
            after_return: false,
            first_line: true,
            failed: false,
            limit,
            event: None,
            id: None,
            data: None,
        }
    }

    /// Adds a piece of the stream. Call `pop` until it has nothing before adding
    /// more, and the buffer never holds more than one line and one piece.
    pub fn push(&mut self, piece: &[u8]) {
        // After an error nothing is read any more, so nothing is kept.
        if !self.failed {
            self.buffer.extend_from_slice(piece);
        }
    }

    /// The next whole event, or `None` until more input arrives. An event that
    /// is not whole when the stream ends is none. After an error only errors come.
    pub fn pop(&mut self) -> Result<Option<Event>, TooLong> {
        while let Some(line) = self.next_line()? {
            if let Some(event) = self.take_line(&line)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<Option<BytesMut>, TooLong> {
        if self.failed {
            return Err(TooLong { limit: self.limit });
        }
        if self.after_return && !self.buffer.is_empty() {
            self.after_return = false;
            if self.buffer.first() == Some(&b'\n') {
                self.buffer.advance(1);
            }
        }
        let found = memchr::memchr2(b'\r', b'\n', &self.buffer[self.searched..]);
        let length = found.map_or(self.buffer.len(), |end| self.searched + end);
        if length > self.limit {
            return Err(self.fail());
        }
        if found.is_none() {
            self.searched = length;
            return Ok(None);
        }
        let mut line = self.buffer.split_to(length);
        // What is left begins with the line break.
        self.after_return = self.buffer.get_u8() == b'\r';
        self.searched = 0;
        if std::mem::take(&mut self.first_line) && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        Ok(Some(line))
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Option<Event>, TooLong> {
        if line.is_empty() {
            let event = self.event.take().filter(|event| !event.is_empty());
            let data = self.data.take();
            return Ok(data.map(|data| Event { event, id: self.id.clone(), data }));
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                let value = String::from_utf8_lossy(value);
                match &mut self.data {
                    None => self.data = Some(value.into_owned()),
                    Some(data) if data.len() + 1 + value.len() > self.limit => {
                        return Err(self.fail());
                    }
                    Some(data) => {
                        data.push('\n');
                        data.push_str(&value);
                    }
                }
            }
            b"event" => self.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if memchr::memchr(0, value).is_none() => {
                self.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            // A comment has no name, and what is not known is passed over.
            _ => {}
        }
        Ok(None)
    }

    fn fail(&mut self) -> TooLong {
        self.failed = true;
        self.buffer = BytesMut::new();
        self.data = None;
        TooLong { limit: self.limit }
    }
}

#[cfg(test)]
mod tests;
