//! Cuts what an agent writes into lines, and keeps the end of what it complains.

use bytes::{Bytes, BytesMut};
use wire::{TextDecoder, run::LINE_LIMIT};

/// How much of standard error is kept, for the message of a failure.
const TAIL: usize = 2 << 10;

/// Cuts a stream of bytes into lines of bounded length.
#[derive(Debug, Default)]
pub(crate) struct LineCutter {
    rest: BytesMut,
    /// The line under way is too long already; its end is awaited.
    overlong: bool,
}

/// A line, or that there was one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Without its line break.
    Whole(Bytes),
    /// Longer than any line may be, and dropped.
    TooLong,
}

impl LineCutter {
    /// Takes bytes and adds the lines that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], lines: &mut Vec<Line>) {
        let mut bytes = bytes;
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..at], &bytes[at + 1..]);
            bytes = rest;
            self.extend(line);
            lines.push(if std::mem::take(&mut self.overlong) {
                Line::TooLong
            } else {
                Line::Whole(self.rest.split().freeze())
            });
        }
        self.extend(bytes);
    }

    /// Forgets the line under way.
    pub(crate) fn reset(&mut self) {
        *self = LineCutter::default();
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.overlong || self.rest.len() + bytes.len() > LINE_LIMIT {
            self.overlong = true;
            self.rest = BytesMut::new();
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }
}

/// The last of what was written to standard error.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        let surplus = self.0.len().saturating_sub(TAIL);
        self.0.drain(..surplus);
    }

    /// As text, without the blank around it.
    pub(crate) fn text(&self) -> String {
        let mut decoder = TextDecoder::default();
        let text = decoder.push(&self.0);
        (text + &decoder.finish()).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_LIMIT, Line, LineCutter, TAIL, Tail};

    fn whole(text: &str) -> Line {
        Line::Whole(text.to_owned().into())
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_were_split() {
        let text = b"one\n\ntwo\nthree";
        for first in 0..=text.len() {
            let mut cutter = LineCutter::default();
            let mut lines = Vec::new();
            cutter.push(&text[..first], &mut lines);
            cutter.push(&text[first..], &mut lines);
            assert_eq!(lines, [whole("one"), whole(""), whole("two")], "split at {first}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_is_not() {
        let mut cutter = LineCutter::default();
        let mut lines = Vec::new();
        for _ in 0..=LINE_LIMIT >> 16 {
            cutter.push(&[b'x'; 1 << 16], &mut lines);
        }
        assert!(cutter.rest.is_empty());
        cutter.push(b"x\nnext\n", &mut lines);
        assert_eq!(lines, [Line::TooLong, whole("next")]);
    }

    #[test]
    fn the_tail_is_the_end_and_bounded() {
        let mut tail = Tail::default();
        tail.push(&vec![b'a'; 3 * TAIL]);
        tail.push(b"the end\n");
        assert_eq!(tail.0.len(), TAIL);
        assert!(tail.text().ends_with("athe end"));
    }
}
