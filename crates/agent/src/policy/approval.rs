//! Questions to people: their ids, and how they read.
//!
//! An id is `<harness>:<kind>:<target>` and the same in every run, since the
//! answer comes with a later one. A long target is cut and told apart by its
//! digest: who agrees to a command has agreed to no other that begins like it.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use wire::agent::Harness;

use super::Action;

/// Longest target that is told whole, in bytes.
const TARGET_BYTES: usize = 1 << 10;
/// Longest target in a sentence.
const SHOWN_BYTES: usize = 200;

/// The id of the question whether something may be done.
pub(super) fn id(harness: Harness, action: Action<'_>) -> String {
    format!("{harness}:{}:{}", kind(action), bounded(target(action)))
}

/// The value of `approval-requested`.
pub(super) fn request(id: &str, action: Action<'_>) -> Value {
    json!({
        "approvalId": id,
        "title": title(action),
        "kind": kind(action),
        "target": bounded(target(action)),
    })
}

/// An action as a sentence names it.
pub(super) fn shown(action: Action<'_>) -> String {
    let what = match action {
        Action::Command(_) => "the command",
        Action::FileWrite(_) => "writing",
        Action::Network(_) => "reaching",
        Action::Tool(_) | Action::Look(_) => "the tool",
    };
    format!("{what} `{}`", shorten(target(action)))
}

/// The beginning of a text, for a sentence.
pub(super) fn shorten(text: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(SHOWN_BYTES)])
}

fn title(action: Action<'_>) -> String {
    let what = match action {
        Action::Command(_) => "Run",
        Action::FileWrite(_) => "Write",
        Action::Network(_) => "Reach",
        Action::Tool(_) | Action::Look(_) => "Use the tool",
    };
    format!("{what} `{}`", shorten(target(action)))
}

fn kind(action: Action<'_>) -> &'static str {
    match action {
        Action::Command(_) => "command",
        Action::FileWrite(_) => "fileWrite",
        Action::Network(_) => "network",
        Action::Tool(_) | Action::Look(_) => "tool",
    }
}

fn target(action: Action<'_>) -> &str {
    match action {
        Action::Command(text)
        | Action::FileWrite(text)
        | Action::Network(text)
        | Action::Tool(text)
        | Action::Look(text) => text.trim(),
    }
}

fn bounded(target: &str) -> String {
    if target.len() <= TARGET_BYTES {
        return target.to_owned();
    }
    let digest = wire::hex(&Sha256::digest(target.as_bytes()));
    format!("{}…{digest}", &target[..target.floor_char_boundary(TARGET_BYTES)])
}
