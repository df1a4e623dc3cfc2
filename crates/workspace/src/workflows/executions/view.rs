//! What the routes of executions take and give.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::ExecutionRow;
use utoipa::{IntoParams, ToSchema};

/// What is executed with, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Execute {
    /// Any JSON; the outputs of the block of type `start`.
    #[serde(default)]
    pub(super) input: Value,
    /// What a hang-up of this stream means.
    #[serde(default)]
    pub(super) on_disconnect: HangUp,
}

/// What the hang-up of a caller means to its execution.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum HangUp {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It goes on, as long as the server does.
    Continue,
}

/// An execution that was started and goes on.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartedExecution {
    /// Its name.
    pub(super) execution_id: String,
    /// What is executed.
    pub(super) workflow_id: String,
    /// `running`.
    pub(super) state: &'static str,
    /// Where its stream is, below this server's address.
    pub(super) stream_url: String,
}

/// An execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Execution {
    /// Its name.
    id: String,
    /// What is executed.
    workflow_id: String,
    /// `running`, `succeeded`, `failed` or `cancelled`.
    state: &'static str,
    /// What the block of type `respond` answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Value>,
    /// Why it failed, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Why it failed, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// When it began.
    started_at: DateTime<Utc>,
    /// When it ended.
    ended_at: Option<DateTime<Utc>>,
}

/// An execution with what it was given.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WholeExecution {
    #[serde(flatten)]
    execution: Execution,
    /// What it was given.
    input: Value,
    /// The workflow as it was then.
    workflow: Value,
}

/// Which executions, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(super) struct Listing {
    /// Only those of this workflow.
    pub(super) workflow_id: Option<String>,
    /// How many entries at most: 1 to 200, 50 unless said.
    #[param(minimum = 1, maximum = 200)]
    pub(super) limit: Option<u32>,
    /// The `nextCursor` of the page before.
    pub(super) cursor: Option<String>,
}

/// Where a follower begins.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct After {
    /// How many lines the reader has already.
    pub(super) after: Option<u64>,
}

impl From<ExecutionRow> for Execution {
    fn from(row: ExecutionRow) -> Execution {
        Execution {
            id: row.id.to_string(),
            workflow_id: row.workflow_id.to_string(),
            state: row.state.name(),
            outputs: row.outputs,
            code: row.code,
            error: row.error,
            started_at: row.started_at,
            ended_at: row.ended_at,
        }
    }
}

impl From<ExecutionRow> for WholeExecution {
    fn from(mut row: ExecutionRow) -> WholeExecution {
        let (input, workflow) = (row.input.take(), row.workflow.take());
        WholeExecution { execution: row.into(), input, workflow }
    }
}
