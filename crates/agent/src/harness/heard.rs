//! What a CLI's output says, in the words that all adapters share.

use serde_json::Value;
use wire::run::{Level, Outcome};

/// Something that happened. `Own` is what only one kind of CLI says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard<Own> {
    /// The model said something.
    Text { message_id: String, delta: String },
    /// The model thought something.
    Reasoning { message_id: String, delta: String },
    /// A tool was called; `id` is the CLI's own.
    CallStarted { id: String, name: String, args: Value },
    /// A call is over.
    CallEnded { id: String, outcome: Outcome },
    /// What the model wants to do, and how far it is.
    Plan(Value),
    /// A diagnostic.
    Log { level: Level, message: String },
    /// What nobody else says.
    Own(Own),
}
