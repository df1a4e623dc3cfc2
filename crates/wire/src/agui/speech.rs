//! What the assistant says and thinks, as messages that open and close.
//!
//! At most one message is open at any time: another one, a thought, a tool call
//! or the end closes it. An agent may go on with a message that was closed so;
//! what follows is then a message of its own, `.2`, `.3` and so on, since no id
//! is ever used twice: front ends keep one list of messages for a conversation,
//! thoughts included.
//!
//! There is one exception. Once a call waits for the caller, all that is said
//! goes on in the message that holds the call. Front ends put the answer behind
//! everything, and models accept it only right after the call's own message;
//! TanStack's client sends it only if that message is the last one.

use std::collections::HashMap;

use super::{AguiKind, AguiRole};
use crate::run::{MESSAGE_LIMIT, STEPS_LIMIT};

/// Ids that are remembered as used. An agent that makes up more gets numbers
/// that need no memory.
const IDS_LIMIT: usize = STEPS_LIMIT;

/// The messages of one run.
#[derive(Clone, Debug)]
pub(super) struct Speech {
    /// The run's id, with which every message's id begins.
    run: String,
    open: Option<Open>,
    /// How often each id was opened.
    opened: HashMap<String, u64>,
    /// The agent's id of the last message of text, and what was said in it.
    last: Option<(String, String)>,
    /// Our id of that message.
    last_id: Option<String>,
    /// The message in which all text goes on.
    held: Option<String>,
}

/// How something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// Aloud.
    Text,
    /// To itself.
    Reasoning,
}

#[derive(Clone, Debug)]
struct Open {
    voice: Voice,
    /// The agent's id.
    source: String,
    /// Ours.
    id: String,
}

impl Speech {
    pub(super) fn new(run: &str) -> Speech {
        Speech {
            run: run.to_owned(),
            open: None,
            opened: HashMap::new(),
            last: None,
            last_id: None,
            held: None,
        }
    }

    /// Takes a piece of a message. `seq` is the entry that it comes from.
    pub(super) fn say(
        &mut self,
        voice: Voice,
        source: &str,
        delta: &str,
        seq: u64,
        out: &mut Vec<AguiKind>,
    ) {
        // It says nothing, and clients before 1.0 refuse it.
        if delta.is_empty() {
            return;
        }
        let id = self.enter(voice, source, seq, out);
        let delta = delta.to_owned();
        out.push(match voice {
            Voice::Text => {
                self.remember(source, &delta);
                AguiKind::TextMessageContent { message_id: id, delta }
            }
            Voice::Reasoning => AguiKind::ReasoningMessageContent { message_id: id, delta },
        });
    }

    /// Closes what is open.
    pub(super) fn close(&mut self, out: &mut Vec<AguiKind>) {
        let Some(Open { voice, id, source: _ }) = self.open.take() else {
            return;
        };
        match voice {
            Voice::Text => out.push(AguiKind::TextMessageEnd { message_id: id }),
            Voice::Reasoning => {
                out.push(AguiKind::ReasoningMessageEnd { message_id: id.clone() });
                out.push(AguiKind::ReasoningEnd { message_id: id });
            }
        }
    }

    /// From now on, text goes on in this message.
    pub(super) fn stay_with(&mut self, message_id: &str) {
        self.held.get_or_insert_with(|| message_id.to_owned());
    }

    /// The message of text that is open.
    pub(super) fn open_text(&self) -> Option<&str> {
        let open = self.open.as_ref()?;
        (open.voice == Voice::Text).then_some(open.id.as_str())
    }

    /// Whether the text is what was said last.
    pub(super) fn said_last(&self, text: &str) -> bool {
        self.last.as_ref().is_some_and(|(_, said)| said.trim() == text.trim())
    }

    /// The id of the message to go on with, which is opened if it is not open.
    fn enter(&mut self, voice: Voice, source: &str, seq: u64, out: &mut Vec<AguiKind>) -> String {
        if let Some(open) = &self.open
            && open.voice == voice
            && open.source == source
        {
            return open.id.clone();
        }
        self.close(out);
        let id = match (voice, &self.held) {
            (Voice::Text, Some(held)) => held.clone(),
            (Voice::Text, None) | (Voice::Reasoning, _) => self.unused_id(voice, source, seq),
        };
        self.open = Some(Open { voice, source: source.to_owned(), id: id.clone() });
        match voice {
            Voice::Text => self.start_text(&id, out),
            Voice::Reasoning => {
                out.push(AguiKind::ReasoningStart { message_id: id.clone() });
                out.push(AguiKind::ReasoningMessageStart {
                    message_id: id.clone(),
                    role: AguiRole::Reasoning,
                });
            }
        }
        id
    }

    fn start_text(&mut self, id: &str, out: &mut Vec<AguiKind>) {
        let message_id = id.to_owned();
        out.push(AguiKind::TextMessageStart { message_id, role: AguiRole::Assistant });
        let before = self.last_id.replace(id.to_owned());
        if before.as_deref() == Some(id) {
            // A paragraph of its own in the same message.
            let (message_id, delta) = (id.to_owned(), "\n\n".to_owned());
            out.push(AguiKind::TextMessageContent { message_id, delta });
        }
    }

    fn unused_id(&mut self, voice: Voice, source: &str, seq: u64) -> String {
        let run = &self.run;
        let id = match voice {
            Voice::Text => format!("{run}.{source}"),
            Voice::Reasoning => format!("{run}.{source}.reasoning"),
        };
        if let Some(times) = self.opened.get_mut(&id) {
            *times += 1;
            return format!("{id}.{times}");
        }
        if self.opened.len() >= IDS_LIMIT {
            return format!("{id}.{seq}");
        }
        self.opened.insert(id.clone(), 1);
        id
    }

    /// Keeps what was said, as far as a final message can be long.
    fn remember(&mut self, source: &str, delta: &str) {
        match &mut self.last {
            Some((last, said)) if last == source => {
                let room = MESSAGE_LIMIT.saturating_sub(said.len()).min(delta.len());
                said.push_str(&delta[..delta.floor_char_boundary(room)]);
            }
            _ => self.last = Some((source.to_owned(), delta.to_owned())),
        }
    }
}
