//! A stream of bytes as lines, and the last of them kept for an error message.

/// Longest line that is passed on in one piece.
const LONGEST: usize = 16 << 10;
/// How much of the end is kept.
const TAIL: usize = 2 << 10;

/// Cuts output into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// A line whose end has not come yet.
    open: Vec<u8>,
    tail: Vec<u8>,
}

impl Lines {
    /// Takes bytes and gives the lines that they complete.
    pub(super) fn push(&mut self, bytes: &[u8], mut on_line: impl FnMut(String)) {
        self.keep(bytes);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.open.extend_from_slice(piece);
            if self.open.ends_with(b"\n") || self.open.len() >= LONGEST {
                on_line(self.take());
            }
        }
    }

    /// Gives what came after the last line's end.
    pub(super) fn finish(&mut self, mut on_line: impl FnMut(String)) {
        if !self.open.is_empty() {
            on_line(self.take());
        }
    }

    /// The end of the output.
    pub(super) fn tail(&self) -> String {
        let cut = &self.tail[self.tail.len().saturating_sub(TAIL)..];
        String::from_utf8_lossy(cut).trim_end().to_owned()
    }

    fn take(&mut self) -> String {
        let line = std::mem::take(&mut self.open);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        String::from_utf8_lossy(line).into_owned()
    }

    fn keep(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(TAIL)..];
        self.tail.extend_from_slice(last);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Lines, TAIL};

    fn cut(pieces: &[&[u8]]) -> (Vec<String>, String) {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in pieces {
            lines.push(piece, |line| seen.push(line));
        }
        lines.finish(|line| seen.push(line));
        (seen, lines.tail())
    }

    #[test]
    fn lines_come_whole_wherever_the_bytes_are_cut() {
        let (seen, tail) = cut(&[b"on", b"e\r\ntwo\n\nth", b"ree"]);
        assert_eq!(seen, ["one", "two", "", "three"]);
        assert_eq!(tail, "one\r\ntwo\n\nthree");
        assert_eq!(cut(&[]).0, Vec::<String>::new());
    }

    #[test]
    fn a_line_without_end_is_cut_and_only_the_tail_is_kept() {
        let long = vec![b'x'; 3 * LONGEST];
        let (seen, tail) = cut(&[&long, b"end"]);
        assert!(seen.iter().all(|line| line.len() <= 3 * LONGEST + 3));
        assert_eq!(tail.len(), TAIL);
        assert!(tail.ends_with("xend"));
        let bytes: Vec<&[u8]> = long.chunks(100).collect();
        let (seen, _) = cut(&bytes);
        assert!(seen.iter().all(|line| line.len() < LONGEST + 100));
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_all_the_same() {
        assert_eq!(cut(&[b"\xff\n"]).0, ["\u{fffd}"]);
    }
}
