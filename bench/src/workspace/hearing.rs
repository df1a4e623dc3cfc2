//! One reader of a turn or of a run, from the request to the end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{CHAT, STREAM};
use crate::{client::Connection, model::WORD, runs::RAW};

/// What was heard of something that succeeded.
pub(super) struct Heard {
    began: Instant,
    ended: Option<Instant>,
    /// Pieces of text as the reader got them, and as the model gave them.
    pub(super) texts: usize,
    pub(super) pieces: usize,
}

/// A turn over the chat stream.
pub(super) fn heard(connection: &mut Connection, body: &[u8]) -> Result<Heard> {
    let mut heard = Heard::nothing();
    connection.events(CHAT, body, |name, data| match name {
        "text" => heard.text(data),
        "done" if data.contains("\"status\":\"succeeded\"") => heard.end(),
        _ => {}
    })?;
    heard.whole()?;
    Ok(heard)
}

/// A run by `POST /stream`.
pub(super) fn ran(connection: &mut Connection, body: &[u8]) -> Result<Heard> {
    let mut heard = Heard::nothing();
    connection.lines(STREAM, RAW, body, |line| {
        if line.contains("\"type\":\"text\"") {
            heard.text(line);
        } else if line.contains("\"type\":\"result\"") {
            heard.end();
        }
    })?;
    heard.whole()?;
    Ok(heard)
}

impl Heard {
    fn nothing() -> Heard {
        Heard { began: Instant::now(), ended: None, texts: 0, pieces: 0 }
    }

    fn text(&mut self, data: &str) {
        self.texts += 1;
        self.pieces += data.matches(WORD).count();
    }

    fn end(&mut self) {
        self.ended = Some(Instant::now());
    }

    /// From the request to the end.
    pub(super) fn whole(&self) -> Result<Duration> {
        self.since(self.began)
    }

    /// From a moment in between to the end.
    pub(super) fn since(&self, moment: Instant) -> Result<Duration> {
        Ok(self.ended.context("it did not succeed")?.duration_since(moment))
    }
}
