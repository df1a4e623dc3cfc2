//! What there is to say about a run.

use chrono::{DateTime, Utc};
use serde::Serialize;
use store::RunRow;
use wire::{
    SandboxId,
    run::{ErrorCode, RunId},
};

use crate::log::Progress;

/// A run, as the API shows it.
#[derive(Debug, Serialize)]
pub(crate) struct RunInfo {
    id: RunId,
    /// `starting`, `running`, `succeeded` or `failed`.
    state: &'static str,
    sandbox_id: SandboxId,
    on_disconnect: &'static str,
    /// The beginning of it.
    prompt: String,
    started_at: DateTime<Utc>,
    /// When it ends at the latest.
    deadline: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    code: Option<ErrorCode>,
    last_seq: u64,
    /// Known when it has ended.
    usage: Option<Usage>,
}

#[derive(Debug, Serialize)]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
}

impl RunInfo {
    /// From its row, and from its log while it is being written.
    pub(crate) fn new(row: RunRow, progress: Option<Progress>) -> RunInfo {
        let usage = row
            .ended_at
            .map(|_| Usage { input_tokens: row.input_tokens, output_tokens: row.output_tokens });
        RunInfo {
            state: row.state.name(),
            on_disconnect: row.on_disconnect.name(),
            last_seq: progress.map_or(row.last_seq, |progress| progress.seq.max(row.last_seq)),
            id: row.id,
            sandbox_id: row.sandbox_id,
            prompt: row.prompt_head,
            started_at: row.started_at,
            deadline: row.deadline,
            ended_at: row.ended_at,
            code: row.code,
            usage,
        }
    }
}
