//! Carries bytes from a command's pipe into its output.
//!
//! Whole lines are published at once, as one chunk per read. The beginning of a
//! line waits for its end, but not long: a prompt has none. A terminal's bytes
//! never wait.
//!
//! When the process is gone its pipe may stay open, held by a child that it left
//! in the background. What the pipe holds at that moment is still delivered;
//! then a short silence, or the passing of a longer time, counts as the end.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    net::unix::pipe::Receiver,
    time::{Instant, sleep},
};
use wire::Stream;

use crate::{command::Command, control::Control, spawn::Source};

/// Most bytes taken in one read.
const READ: usize = 64 << 10;
/// Chunks from this size on keep the buffer they were read into; smaller ones
/// are copied, so that little output does not hold much memory.
const OWN_BUFFER: usize = READ / 2;
/// How long the beginning of a line waits for more: a person may be waiting for
/// this prompt.
const LINE_PATIENCE: Duration = Duration::from_millis(5);
/// Programs that write this much at once write in blocks, and cut lines at will.
const BLOCK: usize = 4 << 10;
/// How long the beginning of a line waits when a block ended in it. No prompt is
/// held up, and a busy machine does not turn lines into pieces.
const BLOCK_PATIENCE: Duration = Duration::from_millis(50);
/// How long a pipe whose process is gone must be silent to count as ended.
const SILENCE: Duration = Duration::from_millis(100);
/// How long others may go on writing to it.
const AFTERMATH: Duration = Duration::from_secs(2);

/// How a pump ended.
pub(crate) enum Drained {
    /// Every writer closed its end.
    Closed,
    /// Somebody the command left behind still can write.
    StillOpen(Receiver),
}

/// Publishes everything that comes out of `source` until it ends.
pub(crate) async fn pump(source: Source, command: &Command, control: &Control) -> Drained {
    let mut pump = Pump {
        source,
        command,
        control,
        buffer: BytesMut::new(),
        patience: LINE_PATIENCE,
        aftermath: None,
    };
    let end = pump.run().await;
    pump.publish(pump.buffer.len());
    match end {
        End::Closed => Drained::Closed,
        End::Silent => Drained::StillOpen(pump.source.receiver),
    }
}

/// Reads and throws away, so that what a command left in the background does
/// not die of writing to a pipe that nobody reads.
pub(crate) async fn discard(receiver: Receiver) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.clear();
        if receiver.readable().await.is_err() {
            return;
        }
        buffer.reserve(READ);
        match receiver.try_read_buf(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => buffer = BytesMut::new(),
            Err(_) => return,
        }
    }
}

enum End {
    Closed,
    Silent,
}

struct Pump<'a> {
    source: Source,
    command: &'a Command,
    control: &'a Control,
    /// What was read and not published: at most the beginning of a line.
    buffer: BytesMut,
    /// How long that waits.
    patience: Duration,
    aftermath: Option<Aftermath>,
}

/// What is left to do when the process is gone.
struct Aftermath {
    /// Bytes that the process itself may have written.
    owed: u64,
    until: Instant,
}

impl Pump<'_> {
    async fn run(&mut self) -> End {
        loop {
            self.command.output.room().await;
            self.notice_exit();
            self.buffer.reserve(READ);
            let held = self.buffer.len();
            match self.source.receiver.try_read_buf(&mut self.buffer) {
                Ok(0) => return End::Closed,
                Ok(read) => {
                    self.patience = if read < BLOCK { LINE_PATIENCE } else { BLOCK_PATIENCE };
                    self.publish(self.whole(held));
                    if self.is_past(read as u64) {
                        return End::Silent;
                    }
                }
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(end) = self.wait().await {
                        return end;
                    }
                }
                // A terminal without users reads as EIO; see pty(7).
                Err(_) => return End::Closed,
            }
        }
    }

    /// Waits for more to read, or for time to pass.
    async fn wait(&mut self) -> Option<End> {
        if self.buffer.is_empty() {
            // An idle command keeps no buffer.
            self.buffer = BytesMut::new();
        }
        tokio::select! {
            biased;
            ready = self.source.receiver.readable() => match ready {
                Ok(()) => None,
                Err(_) => Some(End::Closed),
            },
            () = self.command.exited(), if self.aftermath.is_none() => {
                self.notice_exit();
                None
            }
            () = sleep(self.patience), if !self.buffer.is_empty() => {
                self.publish(self.buffer.len());
                None
            }
            () = sleep(SILENCE), if self.aftermath.is_some() => Some(End::Silent),
        }
    }

    fn notice_exit(&mut self) {
        if self.aftermath.is_none() && self.command.exit().is_some() {
            let owed = rustix::io::ioctl_fionread(&self.source.receiver).unwrap_or(0);
            self.aftermath = Some(Aftermath { owed, until: Instant::now() + AFTERMATH });
        }
    }

    /// Whether all of the process's own output is read and the time of those it
    /// left behind is over.
    fn is_past(&mut self, read: u64) -> bool {
        self.aftermath.as_mut().is_some_and(|aftermath| {
            aftermath.owed = aftermath.owed.saturating_sub(read);
            aftermath.owed == 0 && aftermath.until <= Instant::now()
        })
    }

    /// How much of the buffer can be published, if all but `held` bytes are new.
    fn whole(&self, held: usize) -> usize {
        match self.source.stream {
            Stream::Pty => self.buffer.len(),
            Stream::Stdout | Stream::Stderr => {
                let lines = memchr::memrchr(b'\n', &self.buffer[held..]);
                let lines = lines.map_or(0, |at| held + at + 1);
                let unfinished = self.buffer.len() - lines;
                if unfinished >= self.source.stream.event_limit() {
                    self.buffer.len()
                } else {
                    lines
                }
            }
        }
    }

    fn publish(&mut self, length: usize) {
        if length == 0 {
            return;
        }
        let chunk = if length >= OWN_BUFFER {
            self.buffer.split_to(length).freeze()
        } else {
            let chunk = Bytes::copy_from_slice(&self.buffer[..length]);
            bytes::Buf::advance(&mut self.buffer, length);
            chunk
        };
        self.control.tee(self.command.wire_pid(), self.source.stream, chunk.clone());
        self.command.output.publish(self.source.stream, chunk);
    }
}
