//! Sandboxes: one row from the first start to the pruning after the end.
//!
//! ```text
//! insert ──► living (deadline may move) ──► ended (never changes again) ──► pruned
//! ```

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use wire::SandboxId;

use crate::database::{Store, StoreError, from_column, on, to_column};

/// What outlives the server of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRow {
    /// Its public name.
    pub id: SandboxId,
    /// Whose it is.
    pub team: String,
    /// What it was made from.
    pub template: String,
    /// How strong its walls are.
    pub tier: String,
    /// The caller's own labels.
    pub metadata: BTreeMap<String, String>,
    /// When it began, to the millisecond.
    pub started_at: DateTime<Utc>,
    /// When it has to end, to the millisecond.
    pub deadline: DateTime<Utc>,
    /// What it reaches, as JSON.
    pub network: String,
    /// When it ended, if it has.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it ended, if it has.
    pub end_reason: Option<String>,
}

impl Store {
    /// Adds a sandbox. An id that is there already is an error.
    pub async fn insert_sandbox(&self, row: &SandboxRow) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query(
            "INSERT INTO sandboxes
                 (id, team, template, tier, metadata, started_at, deadline, ended_at, end_reason,
                 network)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(row.id.as_str())
        .bind(&row.team)
        .bind(&row.template)
        .bind(&row.tier)
        .bind(serde_json::json!(row.metadata).to_string())
        .bind(to_column(row.started_at))
        .bind(to_column(row.deadline))
        .bind(row.ended_at.map(to_column))
        .bind(&row.end_reason)
        .bind(&row.network)
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(())
    }

    /// Moves the deadline of a living sandbox. An ended or unknown one is left
    /// as it is: a deadline that comes too late changes nothing.
    pub async fn set_deadline(
        &self,
        id: &SandboxId,
        deadline: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query(
            "UPDATE sandboxes SET deadline = $2 WHERE id = $1 AND ended_at IS NULL",
        )
        .bind(id.as_str())
        .bind(to_column(deadline))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(())
    }

    /// Changes what a living sandbox reaches. An ended or unknown one is left as
    /// it is.
    pub async fn set_network(&self, id: &SandboxId, network: &str) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query(
            "UPDATE sandboxes SET network = $2 WHERE id = $1 AND ended_at IS NULL",
        )
        .bind(id.as_str())
        .bind(network)
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(())
    }

    /// Books the end. The first reason stays; calling it again is not an error.
    pub async fn end_sandbox(
        &self,
        id: &SandboxId,
        reason: &str,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        on!(self, |pool| sqlx::query(
            "UPDATE sandboxes SET ended_at = $2, end_reason = $3
             WHERE id = $1 AND ended_at IS NULL",
        )
        .bind(id.as_str())
        .bind(to_column(at))
        .bind(reason)
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(())
    }

    /// Every sandbox whose end is not booked, oldest first.
    pub async fn living_sandboxes(&self) -> Result<Vec<SandboxRow>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| {
            sqlx::query_as(
            "SELECT id, team, template, tier, metadata, started_at, deadline, ended_at, end_reason,
                 network
             FROM sandboxes WHERE ended_at IS NULL ORDER BY started_at, id",
        ).fetch_all(pool).await
        })?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// One sandbox, living or ended.
    pub async fn sandbox(&self, id: &SandboxId) -> Result<Option<SandboxRow>, StoreError> {
        let columns: Option<Columns> = on!(self, |pool| {
            sqlx::query_as(
            "SELECT id, team, template, tier, metadata, started_at, deadline, ended_at, end_reason,
                 network
             FROM sandboxes WHERE id = $1",
        )
        .bind(id.as_str()).fetch_optional(pool).await
        })?;
        columns.map(Columns::into_row).transpose()
    }

    /// Forgets sandboxes that ended before then and says how many.
    pub async fn prune_sandboxes(&self, ended_before: DateTime<Utc>) -> Result<u64, StoreError> {
        let done = on!(self, |pool| sqlx::query("DELETE FROM sandboxes WHERE ended_at < $1")
            .bind(to_column(ended_before))
            .execute(pool)
            .await
            .map(|done| done.rows_affected()))?;
        Ok(done)
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    team: String,
    template: String,
    tier: String,
    metadata: String,
    started_at: i64,
    deadline: i64,
    ended_at: Option<i64>,
    end_reason: Option<String>,
    network: String,
}

impl Columns {
    fn into_row(self) -> Result<SandboxRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        Ok(SandboxRow {
            id: SandboxId::parse(&self.id).map_err(|_| damaged("id"))?,
            metadata: serde_json::from_str(&self.metadata).map_err(|_| damaged("metadata"))?,
            started_at: from_column(&self.id, "started_at", self.started_at)?,
            deadline: from_column(&self.id, "deadline", self.deadline)?,
            ended_at: self.ended_at.map(|at| from_column(&self.id, "ended_at", at)).transpose()?,
            team: self.team,
            template: self.template,
            tier: self.tier,
            end_reason: self.end_reason,
            network: self.network,
        })
    }
}
