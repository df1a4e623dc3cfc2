//! A model of our own on loopback, which speaks Chat Completions. No key, no
//! network.

use std::{io::Write, sync::mpsc, time::Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::loopback;

/// A piece of a long answer.
pub(crate) const WORD: &str = "word. ";

/// How a model answers.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// `hi`, at once.
    Brief,
    /// So many pieces, each written by itself.
    Talkative(usize),
    /// Not at all, and the connection stays open.
    Silent,
}

/// One that runs as long as the program.
pub(crate) struct Model {
    /// Its address, as `base_url` has it.
    pub(crate) url: String,
    /// When it was called, once for each call.
    pub(crate) calls: mpsc::Receiver<Instant>,
}

impl Model {
    pub(crate) fn start(manner: Manner) -> Result<Model> {
        let (call, calls) = mpsc::channel();
        let url = loopback::serve(move |asked, stream| {
            call.send(asked.at)?;
            match manner {
                Manner::Brief => {
                    let events = format!("{}{}", piece("hi"), end());
                    write!(stream, "{HEAD}Content-Length: {}\r\n\r\n{events}", events.len())?;
                    Ok(())
                }
                Manner::Talkative(pieces) => {
                    write!(stream, "{HEAD}Connection: close\r\n\r\n")?;
                    let piece = piece(WORD);
                    for _ in 0..pieces {
                        stream.write_all(piece.as_bytes())?;
                    }
                    stream.write_all(end().as_bytes())?;
                    bail!("the connection's end is the answer's")
                }
                Manner::Silent => Ok(()),
            }
        })?;
        Ok(Model { url: format!("{url}/v1"), calls })
    }

    /// It as the inline configuration of a run names it.
    pub(crate) fn config(&self) -> Value {
        json!({"provider": "openai", "name": "m", "base_url": self.url, "api_key": "k"})
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";

fn piece(text: &str) -> String {
    chunk(json!({"role": "assistant", "content": text}), Value::Null)
}

fn end() -> String {
    format!("{}data: [DONE]\n\n", chunk(json!({}), json!("stop")))
}

fn chunk(delta: Value, finish: Value) -> String {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "choices": [
        {"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}
