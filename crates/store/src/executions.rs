//! Executions: one row from the start of a workflow to its end and beyond.
//!
//! ```text
//! insert ──► running ──► succeeded, failed, cancelled (never changes again)
//! ```
//!
//! The workflow is kept as it was then: it may be changed or deleted while it
//! runs.

use chrono::{DateTime, Utc};
use serde_json::Value;
use wire::workspace::{ExecutionId, ResourceId, ResourceKind};

use crate::database::{Store, StoreError, from_column, on, to_column, transaction, without_nul};
use crate::streams::{StreamEvent, insert_events};

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRow {
    /// Its public name, and the name of its stream and its bag.
    pub id: ExecutionId,
    /// Whose it is.
    pub workspace: String,
    /// What is executed.
    pub workflow_id: ResourceId,
    /// What that was when it started.
    pub workflow: Value,
    /// What it was given.
    pub input: Value,
    /// How far it is.
    pub state: ExecutionState,
    /// What it gave, if it succeeded.
    pub outputs: Option<Value>,
    /// Why it failed, if it has, as a code.
    pub code: Option<String>,
    /// Why it failed, in words.
    pub error: Option<String>,
    /// When it began, to the millisecond.
    pub started_at: DateTime<Utc>,
    /// When it ended, if it has.
    pub ended_at: Option<DateTime<Utc>>,
}

/// How far an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionState {
    /// Its blocks are worked on.
    Running,
    /// All of them are done.
    Succeeded,
    /// One of them failed.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionEnd {
    /// Any but running.
    pub state: ExecutionState,
    /// What it gave.
    pub outputs: Option<Value>,
    /// Why it failed, as a code.
    pub code: Option<String>,
    /// Why it failed, in words.
    pub error: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

impl ExecutionState {
    /// The name in the store and in answers.
    pub fn name(self) -> &'static str {
        match self {
            ExecutionState::Running => "running",
            ExecutionState::Succeeded => "succeeded",
            ExecutionState::Failed => "failed",
            ExecutionState::Cancelled => "cancelled",
        }
    }

    fn parse(name: &str) -> Option<ExecutionState> {
        let all = [
            ExecutionState::Running,
            ExecutionState::Succeeded,
            ExecutionState::Failed,
            ExecutionState::Cancelled,
        ];
        all.into_iter().find(|state| state.name() == name)
    }
}

impl Store {
    /// Adds an execution. An id that is there already is an error.
    pub async fn insert_execution(&self, row: &ExecutionRow) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query(
            "INSERT INTO executions
                 (id, workspace, workflow_id, workflow, input, state, outputs, code, error,
                  started_at, ended_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(row.id.as_str())
        .bind(&row.workspace)
        .bind(row.workflow_id.as_str())
        .bind(row.workflow.to_string())
        .bind(row.input.to_string())
        .bind(row.state.name())
        .bind(row.outputs.as_ref().map(Value::to_string))
        .bind(row.code.as_deref())
        .bind(row.error.as_deref().map(without_nul))
        .bind(to_column(row.started_at))
        .bind(row.ended_at.map(to_column))
        .execute(pool)
        .await
        .map(|_| ()))?;
        Ok(())
    }

    /// One execution of the workspace, running or ended.
    pub async fn execution(
        &self,
        workspace: &str,
        id: &ExecutionId,
    ) -> Result<Option<ExecutionRow>, StoreError> {
        let columns: Option<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM executions WHERE id = $1 AND workspace = $2"
        )
        .bind(id.as_str())
        .bind(workspace)
        .fetch_optional(pool)
        .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// The workspace's executions, of one workflow or of all, newest first,
    /// behind the one that began then.
    pub async fn list_executions(
        &self,
        workspace: &str,
        workflow: Option<&ResourceId>,
        before: Option<(DateTime<Utc>, &ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<ExecutionRow>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM executions
             WHERE workspace = $1 AND ($2 IS NULL OR workflow_id = $2)
                 AND ($3 IS NULL OR (started_at, id) < ($3, $4))
             ORDER BY started_at DESC, id DESC LIMIT $5",
        )
        .bind(workspace)
        .bind(workflow.map(ResourceId::as_str))
        .bind(before.map(|(time, _)| to_column(time)))
        .bind(before.map(|(_, id)| id.as_str()))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// Every execution whose end is not booked, oldest first.
    pub async fn open_executions(&self) -> Result<Vec<ExecutionRow>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM executions WHERE ended_at IS NULL ORDER BY started_at, id"
        )
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// Ends an execution: its end and the last events of its stream are there
    /// together. False when it had ended already; then nothing changes.
    pub async fn finish_execution(
        &self,
        id: &ExecutionId,
        end: &ExecutionEnd,
        last: &[StreamEvent],
    ) -> Result<bool, StoreError> {
        transaction!(self, |tx| {
            let ended = sqlx::query(
                "UPDATE executions SET state = $2, outputs = $3, code = $4, error = $5,
                     ended_at = $6
                 WHERE id = $1 AND ended_at IS NULL",
            )
            .bind(id.as_str())
            .bind(end.state.name())
            .bind(end.outputs.as_ref().map(Value::to_string))
            .bind(end.code.as_deref().map(without_nul))
            .bind(end.error.as_deref().map(without_nul))
            .bind(to_column(end.at))
            .execute(&mut **tx)
            .await?
            .rows_affected();
            if ended > 0 {
                insert_events!(&mut **tx, id.as_str(), last);
            }
            Ok::<_, StoreError>(ended > 0)
        })
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    workspace: String,
    workflow_id: String,
    workflow: String,
    input: String,
    state: String,
    outputs: Option<String>,
    code: Option<String>,
    error: Option<String>,
    started_at: i64,
    ended_at: Option<i64>,
}

impl Columns {
    fn into_row(self) -> Result<ExecutionRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        let json = |column, text: &String| serde_json::from_str(text).map_err(|_| damaged(column));
        let workflow_id = ResourceId::parse(ResourceKind::Workflow, &self.workflow_id);
        Ok(ExecutionRow {
            id: ExecutionId::parse(&self.id).map_err(|_| damaged("id"))?,
            workflow_id: workflow_id.map_err(|_| damaged("workflow_id"))?,
            workflow: json("workflow", &self.workflow)?,
            input: json("input", &self.input)?,
            state: ExecutionState::parse(&self.state).ok_or_else(|| damaged("state"))?,
            outputs: self.outputs.as_ref().map(|text| json("outputs", text)).transpose()?,
            started_at: from_column(&self.id, "started_at", self.started_at)?,
            ended_at: self.ended_at.map(|at| from_column(&self.id, "ended_at", at)).transpose()?,
            workspace: self.workspace,
            code: self.code,
            error: self.error,
        })
    }
}
