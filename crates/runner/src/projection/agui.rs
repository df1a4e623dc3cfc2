//! Entries of a log as events of AG-UI, each with the place that a client comes
//! back to.
//!
//! An entry may be several events; each has a place of its own, so that a client
//! that was cut off between two of them is sent neither twice.

use wire::{
    agui::{AguiEvent, AguiProjector, Position, encode_ndjson, encode_proto, encode_sse},
    run::RunEvent,
};

use super::Encoding;

/// Writes entries as events.
pub(crate) struct AguiWriter {
    projector: AguiProjector,
    encoding: Encoding,
    /// The events of one entry; kept for its room.
    events: Vec<AguiEvent>,
}

impl AguiWriter {
    pub(super) fn new(encoding: Encoding) -> AguiWriter {
        AguiWriter { projector: AguiProjector::new(), encoding, events: Vec::new() }
    }

    /// Adds the events of an entry that are not behind `after`.
    pub(super) fn write(&mut self, entry: &RunEvent, after: Position, out: &mut Vec<u8>) {
        // Every entry is projected, since it decides what later ones mean.
        self.projector.project(entry, &mut self.events);
        let count = self.events.len();
        let seen = after.seen(entry.seq, count);
        for (index, event) in self.events.drain(..).enumerate().skip(seen) {
            match self.encoding {
                Encoding::Sse => {
                    encode_sse(&event, Some(Position::within(entry.seq, index, count)), out);
                }
                Encoding::Ndjson { .. } => encode_ndjson(&event, out),
                Encoding::Binary => encode_proto(&event, out),
            }
        }
    }
}
