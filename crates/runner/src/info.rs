//! What there is to say about a run.

use chrono::{DateTime, Utc};
use serde::Serialize;
use store::RunRow;
use utoipa::ToSchema;
use wire::{
    SandboxId,
    run::{ErrorCode, RunId},
};

use crate::{described, log::Progress};

/// A run, as the API shows it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunInfo {
    #[schema(value_type = String, example = "run_wvwyk7bkx0h12hhc683671bq")]
    id: RunId,
    #[schema(schema_with = described::state)]
    state: &'static str,
    #[schema(value_type = String, example = "i9x04wvqp041ws3608h38")]
    sandbox_id: SandboxId,
    #[schema(schema_with = described::on_disconnect)]
    on_disconnect: &'static str,
    /// The beginning of it.
    prompt: String,
    started_at: DateTime<Utc>,
    /// When it ends at the latest.
    deadline: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    #[schema(schema_with = described::error_code)]
    code: Option<ErrorCode>,
    /// The number of the last entry of its log.
    last_seq: u64,
    /// Known when it has ended.
    usage: Option<Usage>,
}

/// Tokens of a run's model.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunUsage)]
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
