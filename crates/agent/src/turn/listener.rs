//! Turns what a model says into events, while it says it.

use wire::run::{Event, Level};

use crate::{
    emit::Emitter,
    model::{Delta, Listener},
};

/// Hears one answer.
pub(super) struct Reader<'a> {
    out: &'a Emitter,
    message_id: String,
}

impl<'a> Reader<'a> {
    pub(super) fn new(out: &'a Emitter, round: u32) -> Reader<'a> {
        Reader { out, message_id: format!("msg_{}", u64::from(round) + 1) }
    }
}

impl Listener for Reader<'_> {
    fn delta(&self, delta: Delta) {
        let message_id = self.message_id.clone();
        self.out.emit(match delta {
            Delta::Text(delta) => Event::Text { message_id, delta },
            Delta::Reasoning(delta) => Event::Reasoning { message_id, delta },
        });
    }

    fn retry(&self, notice: &str) {
        self.out.log(Level::Warn, notice);
    }
}
