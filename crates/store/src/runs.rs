//! Runs: one row from the dispatch to the pruning after the end.
//!
//! ```text
//! insert ──► starting ──► running ──► succeeded, failed (never changes again) ──► pruned
//! ```

use chrono::{DateTime, Utc};
use wire::{
    SandboxId,
    run::{ErrorCode, RunId},
};

use crate::database::{Store, StoreError, from_column, number, on, to_column, without_nul};

/// What outlives the server of one run, beside its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its public name.
    pub id: RunId,
    /// Whose it is.
    pub team: String,
    /// What its caller calls it, as a hash.
    pub callers_name: Option<[u8; 32]>,
    /// Where it happens.
    pub sandbox_id: SandboxId,
    /// How far it is.
    pub state: RunState,
    /// What its caller's hang-up means.
    pub on_disconnect: OnDisconnect,
    /// The beginning of its prompt.
    pub prompt_head: String,
    /// When it began, to the millisecond.
    pub started_at: DateTime<Utc>,
    /// When it has to end, to the millisecond.
    pub deadline: DateTime<Utc>,
    /// When it ended, if it has.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it failed, if it has.
    pub code: Option<ErrorCode>,
    /// The number of the last entry of its log; exact once it has ended.
    pub last_seq: u64,
    /// Tokens its model read; exact once it has ended.
    pub input_tokens: u64,
    /// Tokens its model wrote; exact once it has ended.
    pub output_tokens: u64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The agent has not been told everything yet.
    Starting,
    /// The agent works.
    Running,
    /// It ended with a result.
    Succeeded,
    /// It ended with an error.
    Failed,
}

/// What the hang-up of the caller means to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisconnect {
    /// The run ends too.
    Cancel,
    /// The run goes on, also past a restart of the server.
    Continue,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// When.
    pub at: DateTime<Utc>,
    /// Why it failed; a result has no code.
    pub code: Option<ErrorCode>,
    /// The number of the last entry of its log.
    pub last_seq: u64,
    /// Tokens its model read.
    pub input_tokens: u64,
    /// Tokens its model wrote.
    pub output_tokens: u64,
}

/// Where a page of runs begins: behind this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCursor {
    /// When that one began.
    pub started_at: DateTime<Utc>,
    /// Its name.
    pub id: RunId,
}

impl RunState {
    /// The name in the store and in answers.
    pub fn name(self) -> &'static str {
        match self {
            RunState::Starting => "starting",
            RunState::Running => "running",
            RunState::Succeeded => "succeeded",
            RunState::Failed => "failed",
        }
    }

    fn parse(name: &str) -> Option<RunState> {
        let all = [RunState::Starting, RunState::Running, RunState::Succeeded, RunState::Failed];
        all.into_iter().find(|state| state.name() == name)
    }
}

impl OnDisconnect {
    /// The name in the store, in requests and in answers.
    pub fn name(self) -> &'static str {
        match self {
            OnDisconnect::Cancel => "cancel",
            OnDisconnect::Continue => "continue",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<OnDisconnect> {
        [OnDisconnect::Cancel, OnDisconnect::Continue].into_iter().find(|one| one.name() == name)
    }
}

impl Store {
    /// Adds a run. An id that is there already is an error.
    pub async fn insert_run(&self, row: &RunRow) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query(
            "INSERT INTO runs
                 (id, team, sandbox_id, state, on_disconnect, prompt_head, started_at, deadline,
                  ended_at, code, last_seq, input_tokens, output_tokens, callers_name)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        )
        .bind(row.id.as_str())
        .bind(&row.team)
        .bind(row.sandbox_id.as_str())
        .bind(row.state.name())
        .bind(row.on_disconnect.name())
        .bind(without_nul(&row.prompt_head))
        .bind(to_column(row.started_at))
        .bind(to_column(row.deadline))
        .bind(row.ended_at.map(to_column))
        .bind(row.code.map(ErrorCode::name))
        .bind(number(row.last_seq))
        .bind(number(row.input_tokens))
        .bind(number(row.output_tokens))
        .bind(row.callers_name.as_ref().map(|name| &name[..]))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(())
    }

    /// The agent of a starting run has been told everything. One that is past
    /// that is left as it is.
    pub async fn run_is_running(&self, id: &RunId) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query(
            "UPDATE runs SET state = 'running' WHERE id = $1 AND state = 'starting'",
        )
        .bind(id.as_str())
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(())
    }

    /// Books the end. The first one stays; calling it again is not an error.
    pub async fn end_run(&self, id: &RunId, end: &RunEnd) -> Result<(), StoreError> {
        let state = match end.code {
            None => RunState::Succeeded,
            Some(_) => RunState::Failed,
        };
        on!(self, |pool| sqlx::query(
            "UPDATE runs SET state = $2, ended_at = $3, code = $4, last_seq = $5,
                 input_tokens = $6, output_tokens = $7
             WHERE id = $1 AND ended_at IS NULL",
        )
        .bind(id.as_str())
        .bind(state.name())
        .bind(to_column(end.at))
        .bind(end.code.map(ErrorCode::name))
        .bind(number(end.last_seq))
        .bind(number(end.input_tokens))
        .bind(number(end.output_tokens))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(())
    }

    /// One run, living or ended.
    pub async fn run(&self, id: &RunId) -> Result<Option<RunRow>, StoreError> {
        let columns: Option<Columns> =
            on!(self, |pool| sqlx::query_as("SELECT * FROM runs WHERE id = $1")
                .bind(id.as_str())
                .fetch_optional(pool)
                .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// The newest run that the team calls by that name.
    pub async fn run_called(
        &self,
        team: &str,
        name: &[u8; 32],
    ) -> Result<Option<RunId>, StoreError> {
        let id: Option<(String,)> = on!(self, |pool| sqlx::query_as(
            "SELECT id FROM runs WHERE team = $1 AND callers_name = $2
             ORDER BY started_at DESC, id DESC LIMIT 1",
        )
        .bind(team)
        .bind(&name[..])
        .fetch_optional(pool)
        .await)?;
        id.map(parse_id).transpose()
    }

    /// The team's runs, newest first, at most `limit` of them.
    pub async fn runs_of(
        &self,
        team: &str,
        behind: Option<&RunCursor>,
        limit: u32,
    ) -> Result<Vec<RunRow>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM runs
             WHERE team = $1 AND ($2 IS NULL OR (started_at, id) < ($2, $3))
             ORDER BY started_at DESC, id DESC LIMIT $4",
        )
        .bind(team)
        .bind(behind.map(|cursor| to_column(cursor.started_at)))
        .bind(behind.map(|cursor| cursor.id.as_str()))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// Every run whose end is not booked, oldest first.
    pub async fn living_runs(&self) -> Result<Vec<RunRow>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM runs WHERE ended_at IS NULL ORDER BY started_at, id"
        )
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// Forgets runs that ended before then and says which they were.
    pub async fn prune_runs(&self, ended_before: DateTime<Utc>) -> Result<Vec<RunId>, StoreError> {
        let ids: Vec<(String,)> =
            on!(self, |pool| sqlx::query_as("DELETE FROM runs WHERE ended_at < $1 RETURNING id")
                .bind(to_column(ended_before))
                .fetch_all(pool)
                .await)?;
        ids.into_iter().map(parse_id).collect()
    }
}

fn parse_id((id,): (String,)) -> Result<RunId, StoreError> {
    RunId::parse(&id).map_err(|_| StoreError::Damaged { id, column: "id" })
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    team: String,
    sandbox_id: String,
    state: String,
    on_disconnect: String,
    prompt_head: String,
    started_at: i64,
    deadline: i64,
    ended_at: Option<i64>,
    code: Option<String>,
    last_seq: i64,
    input_tokens: i64,
    output_tokens: i64,
    callers_name: Option<Vec<u8>>,
}

impl Columns {
    fn into_row(self) -> Result<RunRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        let count = |column, value: i64| u64::try_from(value).map_err(|_| damaged(column));
        let code = match &self.code {
            None => None,
            Some(name) => Some(ErrorCode::parse(name).ok_or_else(|| damaged("code"))?),
        };
        let name = |name: Vec<u8>| name.try_into().map_err(|_| damaged("callers_name"));
        Ok(RunRow {
            callers_name: self.callers_name.clone().map(name).transpose()?,
            id: RunId::parse(&self.id).map_err(|_| damaged("id"))?,
            sandbox_id: SandboxId::parse(&self.sandbox_id).map_err(|_| damaged("sandbox_id"))?,
            state: RunState::parse(&self.state).ok_or_else(|| damaged("state"))?,
            on_disconnect: OnDisconnect::parse(&self.on_disconnect)
                .ok_or_else(|| damaged("on_disconnect"))?,
            started_at: from_column(&self.id, "started_at", self.started_at)?,
            deadline: from_column(&self.id, "deadline", self.deadline)?,
            ended_at: self.ended_at.map(|at| from_column(&self.id, "ended_at", at)).transpose()?,
            code,
            last_seq: count("last_seq", self.last_seq)?,
            input_tokens: count("input_tokens", self.input_tokens)?,
            output_tokens: count("output_tokens", self.output_tokens)?,
            team: self.team,
            prompt_head: self.prompt_head,
        })
    }
}
