//! What is made of a run's log when it has ended: its steps and its end, each
//! as one document. Both are read from the log alone, in one pass.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use serde::Serialize;
use serde_json::{Value, json};
use wire::run::{Event, Outcome, RunEvent, RunId, StepId, UploadedFile};

use crate::log::{Entries, LOG_FILE};

/// The steps, in the order in which they ended.
pub(crate) const STEPS_FILE: &str = "steps.json";
/// How it ended.
pub(crate) const RESULT_FILE: &str = "result.json";

/// One step, whole.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    id: StepId,
    name: String,
    args: Value,
    #[serde(flatten)]
    outcome: Outcome,
    started_at: u64,
    ended_at: u64,
    duration_ms: u64,
}

/// How a run ended.
#[derive(Default)]
struct Summary {
    started_at: u64,
    ended_at: u64,
    last_seq: u64,
    steps: u64,
    input_tokens: u64,
    output_tokens: u64,
    files: Vec<UploadedFile>,
    end: Value,
}

/// Writes both documents beside the log in `directory`.
pub(crate) fn write(directory: &Path, run: &RunId) -> io::Result<()> {
    let mut entries = Entries::open(&directory.join(LOG_FILE))?;
    let mut steps = BufWriter::new(make(&directory.join(STEPS_FILE))?);
    let mut open: HashMap<StepId, (String, Value, u64)> = HashMap::new();
    let mut summary = Summary::default();
    steps.write_all(b"[")?;
    while let Some(RunEvent { seq, ts, event, .. }) = entries.next()? {
        summary.last_seq = seq;
        summary.ended_at = ts;
        match event {
            Event::Started { .. } => summary.started_at = ts,
            Event::StepStarted { id, name, args } => {
                open.insert(id, (name, args, ts));
            }
            Event::StepEnded { id, outcome, duration_ms } => {
                if let Some((name, args, started_at)) = open.remove(&id) {
                    let break_before: &[u8] = if summary.steps == 0 { b"\n" } else { b",\n" };
                    summary.steps += 1;
                    steps.write_all(break_before)?;
                    let step =
                        Step { id, name, args, outcome, started_at, ended_at: ts, duration_ms };
                    serde_json::to_writer(&mut steps, &step)?;
                }
            }
            Event::Usage { input_tokens, output_tokens, .. } => {
                summary.input_tokens += input_tokens;
                summary.output_tokens += output_tokens;
            }
            Event::Uploaded { files } => summary.files.extend(files),
            Event::Result { message } => {
                summary.end = json!({"type": "result", "message": message});
            }
            Event::Error { code, message } => {
                summary.end = json!({"type": "error", "code": code, "message": message});
            }
            Event::Log { .. }
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::File { .. }
            | Event::Custom { .. } => {}
        }
    }
    steps.write_all(b"\n]\n")?;
    steps.flush()?;
    let mut result = make(&directory.join(RESULT_FILE))?;
    serde_json::to_writer(&mut result, &summary.document(run))?;
    result.write_all(b"\n")?;
    steps.get_ref().sync_all()?;
    result.sync_all()
}

impl Summary {
    fn document(self, run: &RunId) -> Value {
        json!({
            "runId": run,
            "end": self.end,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "lastSeq": self.last_seq,
            "steps": self.steps,
            "usage": {"inputTokens": self.input_tokens, "outputTokens": self.output_tokens},
            "files": self.files,
        })
    }
}

fn make(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
