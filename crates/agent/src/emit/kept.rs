//! An emitter's other end for tests: what was written is kept to be read.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use wire::run::{AgentLine, Event};

use super::Emitter;

/// What was written so far.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    /// An emitter that writes into this.
    pub(crate) fn emitter(&self) -> Emitter {
        Emitter::to(self.clone())
    }

    /// The lines that were written.
    pub(crate) fn lines(&self) -> Vec<AgentLine> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events in them.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lines().into_iter().map(|line| line.event).collect()
    }

    /// The values of custom events of that name.
    pub(crate) fn customs(&self, wanted: &str) -> Vec<Value> {
        let values = self.events().into_iter().filter_map(|event| {
            let Event::Custom { name, value } = event else { return None };
            (name == wanted).then_some(value)
        });
        values.collect()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
