//! What happens in a turn, and its form in the store and on the stream.
//!
//! | event | data |
//! |---|---|
//! | `turn` | `{turnId, chatId, userMessageId}`, first |
//! | `step` | the envelope's step line; lines of one step share its id |
//! | `text`, `reasoning` | `{messageId, delta}` |
//! | `files` | `{files: […]}` that the sandbox wrote back |
//! | `file` | `{change, path}` in the sandbox |
//! | `usage` | tokens since the last one |
//! | `log` | `{level, message}`: for the trace, never sent |
//! | `done` | `{status, message, code?, error?}`, last |

use serde::{Deserialize, Serialize};
use store::{FileRow, StreamEvent};
use utoipa::ToSchema;
use wire::run::{EnvelopeLine, FileChange, Level, Progress, StepId};

/// The kind of the terminating event. Not `error`, nor `message`: `EventSource`
/// has those for itself.
pub(crate) const DONE: &str = "done";
/// The kind that is for the trace only.
pub(crate) const LOG: &str = "log";

/// Something that happened before the end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TurnEvent {
    Turn(Opening),
    Step(Step),
    Text(Piece),
    Reasoning(Piece),
    Files(Files),
    File(FileSeen),
    Usage(Usage),
    Log(LogLine),
}

/// Which turn this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Opening {
    pub(crate) turn_id: String,
    pub(crate) chat_id: String,
    pub(crate) user_message_id: String,
}

/// A step began or ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) id: StepId,
    pub(crate) name: String,
    pub(crate) progress: Progress,
    pub(crate) ts: Option<u64>,
}

/// A piece of what is said or thought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Piece {
    pub(crate) message_id: String,
    pub(crate) delta: String,
}

/// Files that came into the bag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Files {
    pub(crate) files: Vec<FileInfo>,
}

/// A file of a conversation's bag, as messages name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileInfo {
    /// Its id.
    pub(crate) id: String,
    /// Its name in the bag.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) mime_type: String,
    /// How large it is, in bytes.
    pub(crate) size: u64,
}

/// A file changed in the sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileSeen {
    pub(crate) change: FileChange,
    pub(crate) path: String,
}

/// Tokens that the model used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cache_read_tokens: u64,
    pub(crate) cache_write_tokens: u64,
}

/// A diagnostic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogLine {
    pub(crate) level: Level,
    pub(crate) message: String,
}

/// How a turn ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With the assistant's message.
    Answered { message: String },
    /// Without one.
    Failed { code: String, message: String },
}

impl From<&FileRow> for FileInfo {
    fn from(row: &FileRow) -> FileInfo {
        FileInfo {
            id: row.id.to_string(),
            name: row.name.clone(),
            mime_type: row.mime_type.clone(),
            size: row.size,
        }
    }
}

impl TurnEvent {
    /// Adds `next` to this one, if both are pieces of the same; gives it back
    /// if not.
    pub(crate) fn merge(&mut self, next: TurnEvent) -> Option<TurnEvent> {
        match (self, next) {
            (TurnEvent::Text(piece), TurnEvent::Text(next))
            | (TurnEvent::Reasoning(piece), TurnEvent::Reasoning(next))
                if piece.message_id == next.message_id =>
            {
                piece.delta.push_str(&next.delta);
                None
            }
            (_, next) => Some(next),
        }
    }

    /// As the store keeps it.
    pub(crate) fn to_stored(&self, seq: u64, upstream: Option<u64>) -> StreamEvent {
        let (kind, data) = match self {
            TurnEvent::Turn(opening) => ("turn", json(opening)),
            TurnEvent::Step(step) => ("step", step.to_json()),
            TurnEvent::Text(piece) => ("text", json(piece)),
            TurnEvent::Reasoning(piece) => ("reasoning", json(piece)),
            TurnEvent::Files(files) => ("files", json(files)),
            TurnEvent::File(file) => ("file", json(file)),
            TurnEvent::Usage(usage) => ("usage", json(usage)),
            TurnEvent::Log(line) => (LOG, json(line)),
        };
        StreamEvent { seq, kind: kind.to_owned(), data, upstream }
    }

    /// Out of the store; `None` for the terminating event, and for one that a
    /// later version wrote.
    pub(crate) fn of_stored(stored: &StreamEvent) -> Option<TurnEvent> {
        let data = stored.data.as_str();
        match stored.kind.as_str() {
            "turn" => read(data).map(TurnEvent::Turn),
            "step" => Step::of_json(data).map(TurnEvent::Step),
            "text" => read(data).map(TurnEvent::Text),
            "reasoning" => read(data).map(TurnEvent::Reasoning),
            "files" => read(data).map(TurnEvent::Files),
            "file" => read(data).map(TurnEvent::File),
            "usage" => read(data).map(TurnEvent::Usage),
            LOG => read(data).map(TurnEvent::Log),
            _ => None,
        }
    }
}

impl Step {
    fn to_json(&self) -> String {
        let Step { id, name, progress, ts } = self.clone();
        let mut line = EnvelopeLine::Step { id, name, progress, ts }.to_line();
        line.truncate(line.trim_end().len());
        line
    }

    fn of_json(data: &str) -> Option<Step> {
        Step::of_line(EnvelopeLine::parse(data.as_bytes()).ok()?)
    }

    /// The step of a step line.
    pub(crate) fn of_line(line: EnvelopeLine) -> Option<Step> {
        match line {
            EnvelopeLine::Step { id, name, progress, ts } => Some(Step { id, name, progress, ts }),
            EnvelopeLine::Log { .. } | EnvelopeLine::Result { .. } | EnvelopeLine::Error { .. } => {
                None
            }
        }
    }
}

fn json(data: &impl Serialize) -> String {
    // Every key is a string and every number is finite, so this cannot fail.
    serde_json::to_string(data).unwrap_or_default()
}

fn read<T: for<'de> Deserialize<'de>>(data: &str) -> Option<T> {
    serde_json::from_str(data).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::run::{FileChange, Level, Progress, StepId};

    use super::{FileInfo, FileSeen, Files, LogLine, Opening, Piece, Step, TurnEvent, Usage};

    fn piece(message: &str, delta: &str) -> Piece {
        Piece { message_id: message.to_owned(), delta: delta.to_owned() }
    }

    #[track_caller]
    fn check(event: TurnEvent, kind: &str, data: &str) {
        let stored = event.to_stored(7, Some(3));
        assert_eq!((stored.kind.as_str(), stored.data.as_str()), (kind, data));
        assert_eq!((stored.seq, stored.upstream), (7, Some(3)));
        assert_eq!(TurnEvent::of_stored(&stored), Some(event));
    }

    #[test]
    fn every_event_has_golden_data_and_reads_back() {
        let opening = Opening {
            turn_id: "turn_1".to_owned(),
            chat_id: "chat_1".to_owned(),
            user_message_id: "msg_1".to_owned(),
        };
        let opened = r#"{"turnId":"turn_1","chatId":"chat_1","userMessageId":"msg_1"}"#;
        check(TurnEvent::Turn(opening), "turn", opened);
        let text = r#"{"messageId":"m","delta":"a\nb"}"#;
        check(TurnEvent::Text(piece("m", "a\nb")), "text", text);
        check(TurnEvent::Reasoning(piece("m", "a\nb")), "reasoning", text);
        let step = Step {
            id: StepId::from_number(1),
            name: "shell".to_owned(),
            progress: Progress::Running { args: json!({"command": "ls"}) },
            ts: Some(5),
        };
        let line = r#"{"type":"step","id":"step_1","name":"shell","status":"running","args":{"command":"ls"},"ts":5}"#;
        check(TurnEvent::Step(step), "step", line);
        let file = FileInfo {
            id: "file_1".to_owned(),
            name: "a.txt".to_owned(),
            mime_type: "text/plain".to_owned(),
            size: 2,
        };
        let files =
            r#"{"files":[{"id":"file_1","name":"a.txt","mimeType":"text/plain","size":2}]}"#;
        check(TurnEvent::Files(Files { files: vec![file] }), "files", files);
        let seen = FileSeen { change: FileChange::Create, path: "a".to_owned() };
        check(TurnEvent::File(seen), "file", r#"{"change":"create","path":"a"}"#);
        let usage = Usage {
            input_tokens: 1,
            output_tokens: 2,
            cache_read_tokens: 3,
            cache_write_tokens: 4,
        };
        let tokens =
            r#"{"inputTokens":1,"outputTokens":2,"cacheReadTokens":3,"cacheWriteTokens":4}"#;
        check(TurnEvent::Usage(usage), "usage", tokens);
        let log = LogLine { level: Level::Warn, message: "hm".to_owned() };
        check(TurnEvent::Log(log), "log", r#"{"level":"warn","message":"hm"}"#);
    }

    #[test]
    fn only_pieces_of_one_message_are_merged() {
        let mut event = TurnEvent::Text(piece("m", "a"));
        assert_eq!(event.merge(TurnEvent::Text(piece("m", "b"))), None);
        assert_eq!(event, TurnEvent::Text(piece("m", "ab")));
        for other in [
            TurnEvent::Text(piece("n", "c")),
            TurnEvent::Reasoning(piece("m", "c")),
            TurnEvent::Log(LogLine { level: Level::Info, message: String::new() }),
        ] {
            assert_eq!(event.merge(other.clone()), Some(other));
        }
    }
}
