//! The events of a turn, folded into the assistant's message: what a reload
//! shows is what was seen live.
//!
//! A message is bounded. What would make it larger is left out where it is
//! missed least: results and arguments of steps first, then pieces of text, then
//! further steps. The final message always has its place.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use wire::run::{MESSAGE_LIMIT, NOTE_LIMIT, Progress, StepId};

use super::event::{Ending, FileInfo, Piece, Step, TurnEvent};
use crate::depth::is_too_deep;

/// Bytes of a message's blocks.
const LIMIT: usize = 4 << 20;
/// Bytes of them that the end of a turn may need.
const RESERVE: usize = MESSAGE_LIMIT + NOTE_LIMIT;
/// Bytes that a block takes beside what is in it.
const FRAME: usize = 128;
/// Says that a text was longer.
const MARK: &str = "… [cut]";

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Block {
    /// Something said.
    Text {
        /// What.
        text: String,
    },
    /// Something done.
    Step(StepBlock),
    /// Files that came into the bag.
    Files {
        /// Which.
        files: Vec<FileInfo>,
    },
    /// Why there is no answer.
    Error {
        /// For programs.
        code: String,
        /// For people.
        message: String,
    },
}

/// Something done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepBlock {
    /// The step's id within its turn.
    id: String,
    /// The tool, recipe or skill.
    name: String,
    /// How it went.
    status: StepStatus,
    /// The arguments, as the model gave them.
    #[serde(default)]
    args: Value,
    /// What came back, if it is not too large to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepStatus {
    /// It was called.
    Running,
    /// It returned.
    Succeeded,
    /// It did not.
    Failed,
}

impl Block {
    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Block::Text { text } => Some(text),
            Block::Step(_) | Block::Files { .. } | Block::Error { .. } => None,
        }
    }
}

/// A message in the making.
#[derive(Debug)]
pub(super) struct Fold {
    blocks: Vec<Block>,
    /// Where each step is.
    steps: HashMap<StepId, usize>,
    /// Whose text the last block is.
    speaker: Option<String>,
    /// Bytes that may still be added.
    left: usize,
    /// Text was left out already; what follows it would make no sense.
    cut: bool,
}

impl Fold {
    pub(super) fn new() -> Fold {
        Fold {
            blocks: Vec::new(),
            steps: HashMap::new(),
            speaker: None,
            left: LIMIT - RESERVE,
            cut: false,
        }
    }

    /// Adds what happened.
    pub(super) fn add(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Text(piece) => self.add_text(piece),
            TurnEvent::Step(step) => self.add_step(step),
            TurnEvent::Files(files) => {
                if self.take(size(files)) {
                    self.push(Block::Files { files: files.files.clone() });
                }
            }
            TurnEvent::Turn(_)
            | TurnEvent::Reasoning(_)
            | TurnEvent::File(_)
            | TurnEvent::Usage(_)
            | TurnEvent::Log(_) => {}
        }
    }

    /// The whole message.
    pub(super) fn finish(&self, ending: &Ending) -> Vec<Block> {
        let mut blocks = self.blocks.clone();
        for block in &mut blocks {
            if let Block::Step(step) = block
                && step.status == StepStatus::Running
            {
                step.status = StepStatus::Failed;
                step.error = Some("the turn ended before this step did".to_owned());
            }
        }
        match ending {
            Ending::Answered { message } => conclude(&mut blocks, cut(message, MESSAGE_LIMIT)),
            Ending::Failed { code, message } => blocks.push(Block::Error {
                code: cut(code, FRAME),
                message: cut(message, NOTE_LIMIT - FRAME),
            }),
        }
        blocks
    }

    fn add_text(&mut self, piece: &Piece) {
        if self.cut || piece.delta.is_empty() {
            return;
        }
        let goes_on = self.speaker.as_ref() == Some(&piece.message_id);
        let fits = self.take(size(&piece.delta) + if goes_on { 0 } else { FRAME });
        self.cut = !fits;
        let delta = if fits { &piece.delta } else { MARK };
        match self.blocks.last_mut() {
            Some(Block::Text { text }) if goes_on => text.push_str(delta),
            Some(_) | None => {
                self.push(Block::Text { text: delta.to_owned() });
                self.speaker = Some(piece.message_id.clone());
            }
        }
    }

    fn add_step(&mut self, step: &Step) {
        let place = match self.steps.get(&step.id) {
            Some(place) => *place,
            None => {
                if !self.take(FRAME + step.id.as_str().len() + size(&step.name)) {
                    return;
                }
                self.steps.insert(step.id.clone(), self.blocks.len());
                self.push(Block::Step(StepBlock {
                    id: step.id.to_string(),
                    name: step.name.clone(),
                    status: StepStatus::Running,
                    args: Value::Null,
                    result: None,
                    error: None,
                    duration_ms: None,
                }));
                self.blocks.len() - 1
            }
        };
        let (args, result, error) = match &step.progress {
            Progress::Running { args } => (Some(self.bounded(args)), None, None),
            Progress::Succeeded { result, .. } => (None, Some(self.bounded(result)), None),
            Progress::Failed { error, .. } => {
                let error = if self.take(size(error)) { error.clone() } else { MARK.to_owned() };
                (None, None, Some(error))
            }
        };
        let Some(Block::Step(block)) = self.blocks.get_mut(place) else { return };
        (block.status, block.duration_ms) = match step.progress {
            Progress::Running { .. } => (StepStatus::Running, None),
            Progress::Succeeded { duration_ms, .. } => (StepStatus::Succeeded, Some(duration_ms)),
            Progress::Failed { duration_ms, .. } => (StepStatus::Failed, duration_ms),
        };
        block.args = args.unwrap_or_else(|| block.args.take());
        block.result = result.or(block.result.take());
        block.error = error;
    }

    /// The value, or that it was too large or too deep.
    fn bounded(&mut self, value: &Value) -> Value {
        let fits = !is_too_deep(value) && self.take(size(value));
        if fits { value.clone() } else { json!({"truncated": true}) }
    }

    fn push(&mut self, block: Block) {
        self.speaker = None;
        self.blocks.push(block);
    }

    fn take(&mut self, bytes: usize) -> bool {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

/// Adds the final message, unless it was said already. What was said of it in
/// pieces gives way to it.
fn conclude(blocks: &mut Vec<Block>, message: String) {
    let said = blocks.iter_mut().rev().find_map(|block| match block {
        Block::Text { text } => Some(text),
        Block::Step(_) | Block::Files { .. } | Block::Error { .. } => None,
    });
    match said {
        Some(text) if message.starts_with(text.trim_end_matches(MARK)) => *text = message,
        Some(text) if *text == message => {}
        Some(_) | None if message.is_empty() => {}
        Some(_) | None => blocks.push(Block::Text { text: message }),
    }
}

/// The beginning of a text whose JSON takes at most `limit` bytes.
fn cut(text: &str, limit: usize) -> String {
    if size(text) <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub(MARK.len() + 2).min(text.len());
    loop {
        end = text.floor_char_boundary(end);
        let over = size(&text[..end]).saturating_sub(limit.saturating_sub(MARK.len()));
        if over == 0 || end == 0 {
            return format!("{}{MARK}", &text[..end]);
        }
        // One byte of text takes at most six of JSON.
        end = end.saturating_sub((over / 6).max(1));
    }
}

/// Bytes of something as JSON.
fn size<T: Serialize + ?Sized>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}

#[cfg(test)]
mod tests;
