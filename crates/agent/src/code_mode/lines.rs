//! Lines of bounded length out of a pipe whose other end is anybody's.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads lines.
pub(super) struct Lines<R> {
    source: R,
    /// What was read; up to `given` it was given out.
    pending: Vec<u8>,
    given: usize,
    /// Up to here there is no end of a line in it.
    searched: usize,
    /// The longest line.
    limit: usize,
    /// Whether the line that is being read is too long.
    skipping: bool,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end.
    Text(String),
    /// A line that is too long to be read.
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(source: R, limit: usize) -> Lines<R> {
        Lines { source, pending: Vec::new(), given: 0, searched: 0, limit, skipping: false }
    }

    /// The next line; `None` once there are no more. A caller that stops
    /// waiting loses nothing.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.take() {
                return Some(line);
            }
            // Moved once for all lines that came together.
            self.pending.drain(..self.given);
            self.searched -= self.given;
            self.given = 0;
            // A pipe that breaks has ended.
            if let Ok(0) | Err(_) = self.source.read_buf(&mut self.pending).await {
                let rest = std::mem::take(&mut self.pending);
                self.searched = 0;
                if std::mem::take(&mut self.skipping) {
                    return Some(Line::TooLong);
                }
                return (!rest.is_empty()).then(|| text(&rest));
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        let found = self.pending[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| at + self.searched) else {
            self.searched = self.pending.len();
            self.skipping |= self.searched - self.given > self.limit;
            if self.skipping {
                self.pending.clear();
                self.given = 0;
                self.searched = 0;
            }
            return None;
        };
        let line = &self.pending[self.given..end];
        let is_long = std::mem::take(&mut self.skipping) || line.len() > self.limit;
        let line = if is_long { Line::TooLong } else { text(line) };
        self.given = end + 1;
        self.searched = self.given;
        Some(line)
    }
}

fn text(bytes: &[u8]) -> Line {
    Line::Text(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Line, Lines};

    async fn check(input: &[u8], expected: &[Option<&str>]) {
        let mut lines = Lines::new(input, 4);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await {
            found.push(match line {
                Line::Text(text) => Some(text),
                Line::TooLong => None,
            });
        }
        let expected: Vec<_> = expected.iter().map(|line| line.map(str::to_owned)).collect();
        assert_eq!(found, expected, "{input:?}");
    }

    #[tokio::test]
    async fn long_lines_are_skipped_and_the_others_read() {
        check(b"", &[]).await;
        check(b"a\n\nb", &[Some("a"), Some(""), Some("b")]).await;
        check(b"1234\n12345\n1\n", &[Some("1234"), None, Some("1")]).await;
        check(b"123456789", &[None]).await;
        check(b"\xff\n", &[Some("\u{fffd}")]).await;
        let long = [vec![b'x'; 100_000], b"\nend\n".to_vec()].concat();
        check(&long, &[None, Some("end")]).await;
    }
}
