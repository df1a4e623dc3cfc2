//! The copy of all output that goes into the sandbox's log. The log is short,
//! so the copy is too: old output makes room for new, and is counted.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use wire::{ControlMessage, Stream, events_in};

use super::{Ticket, line};

/// Bytes that wait for the host.
const BYTES: usize = 256 << 10;
/// Lines the host keeps. More of them at once would be written for nothing.
const LINES: u64 = 1024;
/// Most bytes of output in one message.
const MESSAGE: usize = 32 << 10;

/// Output on its way to the host.
#[derive(Default)]
pub(super) struct Tee {
    pieces: VecDeque<Piece>,
    bytes: usize,
    dropped: u64,
}

struct Piece {
    ticket: Ticket,
    pid: u32,
    stream: Stream,
    bytes: Bytes,
}

impl Tee {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn push(&mut self, ticket: Ticket, pid: u32, stream: Stream, bytes: Bytes) {
        self.bytes += bytes.len();
        self.pieces.push_back(Piece { ticket, pid, stream, bytes });
        // Pieces cost memory beside their bytes, so their number is bounded too.
        while self.bytes > BYTES || self.pieces.len() > LINES as usize {
            self.drop_first();
        }
    }

    /// Drops what the host would only read to throw away.
    pub(super) fn keep_last_lines(&mut self) {
        let mut lines = 0;
        let mut keep = 0;
        for piece in self.pieces.iter_mut().rev() {
            if lines >= LINES {
                break;
            }
            let cut = cut_before_last(LINES - lines, piece);
            lines += events_in(piece.stream, &piece.bytes);
            self.dropped += cut as u64;
            self.bytes -= cut;
            keep += 1;
        }
        while self.pieces.len() > keep {
            self.drop_first();
        }
    }

    /// Writes everything that came before the ticket, joined per command and pipe.
    pub(super) fn write_before(&mut self, ticket: Ticket, out: &mut BytesMut) {
        while let Some(first) = self.pop_before(ticket) {
            let (pid, stream) = (first.pid, first.stream);
            let mut text = first.bytes.to_vec();
            while let Some(next) = self.pieces.front()
                && (next.pid, next.stream) == (pid, stream)
                && text.len() + next.bytes.len() <= MESSAGE
                && let Some(next) = self.pop_before(ticket)
            {
                text.extend_from_slice(&next.bytes);
            }
            for part in text.chunks(MESSAGE) {
                let text = String::from_utf8_lossy(part).into_owned();
                let dropped = std::mem::take(&mut self.dropped);
                out.extend_from_slice(&line(&ControlMessage::Log { pid, stream, text, dropped }));
            }
        }
        if self.pieces.is_empty() {
            self.pieces = VecDeque::new();
        }
    }

    fn pop_before(&mut self, ticket: Ticket) -> Option<Piece> {
        let piece = self.pieces.pop_front_if(|piece| piece.ticket < ticket)?;
        self.bytes -= piece.bytes.len();
        Some(piece)
    }

    fn drop_first(&mut self) {
        if let Some(piece) = self.pieces.pop_front() {
            self.bytes -= piece.bytes.len();
            self.dropped += piece.bytes.len() as u64;
        }
    }
}

/// Cuts a piece down to its last lines and says how many bytes that dropped.
fn cut_before_last(lines: u64, piece: &mut Piece) -> usize {
    let body = piece.bytes.strip_suffix(b"\n").unwrap_or(&piece.bytes);
    let newlines = memchr::memrchr_iter(b'\n', body);
    let cut = usize::try_from(lines - 1).ok().and_then(|before| newlines.into_iter().nth(before));
    let cut = cut.map_or(0, |newline| newline + 1);
    piece.bytes = piece.bytes.split_off(cut);
    cut
}
