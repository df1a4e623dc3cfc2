//! Keeps the beginning and the end of an output, whatever its length: the
//! memory is bounded while a command runs, not after.

use std::collections::VecDeque;

use super::Extent;

/// What is kept of one output.
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes that each of the two may hold.
    half: usize,
    /// Bytes that were between them.
    dropped: u64,
}

impl Capture {
    pub(super) fn new(limit: usize) -> Capture {
        Capture { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, dropped: 0 }
    }

    pub(super) fn push(&mut self, mut piece: &[u8]) {
        let room = self.half - self.head.len();
        let (first, rest) = piece.split_at(piece.len().min(room));
        self.head.extend_from_slice(first);
        piece = rest;
        // Of a piece longer than the whole tail only its end can stay.
        let skipped = piece.len().saturating_sub(self.half);
        let over = (self.tail.len() + piece.len() - skipped).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(&piece[skipped..]);
        self.dropped += (skipped + over) as u64;
    }

    /// The output as text, with a note where something is missing.
    pub(super) fn finish(self) -> (String, Extent) {
        let mut bytes = self.head;
        if self.dropped == 0 {
            bytes.extend(self.tail);
            return (String::from_utf8_lossy(&bytes).into_owned(), Extent::Whole);
        }
        let tail: Vec<u8> = self.tail.into();
        let text = format!(
            "{}\n[… {} bytes left out …]\n{}",
            String::from_utf8_lossy(&bytes),
            self.dropped,
            String::from_utf8_lossy(&tail)
        );
        (text, Extent::Cut)
    }
}

#[cfg(test)]
mod tests {
    use super::{Capture, Extent};

    #[track_caller]
    fn check(pieces: &[&str], expected: &str, extent: Extent) {
        let mut capture = Capture::new(8);
        pieces.iter().for_each(|piece| capture.push(piece.as_bytes()));
        assert_eq!(capture.finish(), (expected.to_owned(), extent), "{pieces:?}");
    }

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        check(&[], "", Extent::Whole);
        check(&["12345678"], "12345678", Extent::Whole);
        check(&["123", "456", "78"], "12345678", Extent::Whole);
        check(&["123456789"], "1234\n[… 1 bytes left out …]\n6789", Extent::Cut);
        check(&["1234", "5678", "9", "0"], "1234\n[… 2 bytes left out …]\n7890", Extent::Cut);
        check(&["12", "34567890abcdef"], "1234\n[… 8 bytes left out …]\ncdef", Extent::Cut);
    }
}
