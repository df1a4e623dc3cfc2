//! Rows of the tables a workspace makes, in the order they came.
//!
//! Whose table it is has been asked before: a row knows its table only. What
//! fits under which column is the workspace's affair; here it is JSON.

use chrono::{DateTime, Utc};
use serde_json::Value;
use wire::workspace::{ResourceId, ResourceKind, RowId};

use crate::database::{Store, StoreError, from_column, on, to_column, transaction};

/// How many rows go into one statement: both databases bound its parameters.
const ROWS_PER_INSERT: usize = 1000;

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Its public name.
    pub id: RowId,
    /// The table it is in.
    pub table_id: ResourceId,
    /// The values under their columns' names.
    pub data: Value,
    /// When it was made, to the millisecond.
    pub created_at: DateTime<Utc>,
    /// When it was last changed, to the millisecond.
    pub updated_at: DateTime<Utc>,
    /// Its place among all rows, which the store gives it.
    pub position: i64,
}

impl Store {
    /// Adds rows to tables: all or none.
    pub async fn insert_rows(&self, rows: &[TableRow]) -> Result<(), StoreError> {
        transaction!(self, |tx| {
            for some in rows.chunks(ROWS_PER_INSERT) {
                let mut insert = sqlx::QueryBuilder::new(
                    "INSERT INTO table_rows (id, table_id, data, created_at, updated_at) ",
                );
                insert.push_values(some, |mut values, row| {
                    values
                        .push_bind(row.id.as_str())
                        .push_bind(row.table_id.as_str())
                        .push_bind(row.data.to_string())
                        .push_bind(to_column(row.created_at))
                        .push_bind(to_column(row.updated_at));
                });
                insert.build().execute(&mut **tx).await?;
            }
            Ok::<_, StoreError>(())
        })
    }

    /// One row.
    pub async fn table_row(
        &self,
        table: &ResourceId,
        id: &RowId,
    ) -> Result<Option<TableRow>, StoreError> {
        let columns: Option<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT id, table_id, data, created_at, updated_at, position FROM table_rows
             WHERE id = $1 AND table_id = $2",
        )
        .bind(id.as_str())
        .bind(table.as_str())
        .fetch_optional(pool)
        .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// The rows of a table in the order they came, at most `limit` of them,
    /// behind the place `after`, be there a row or not.
    pub async fn list_rows(
        &self,
        table: &ResourceId,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<TableRow>, StoreError> {
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT id, table_id, data, created_at, updated_at, position FROM table_rows
             WHERE table_id = $1 AND position > $2 ORDER BY position LIMIT $3",
        )
        .bind(table.as_str())
        .bind(after.unwrap_or(i64::MIN))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// Changes the values of a row and the time of the last change. False when
    /// there is no such row.
    pub async fn update_row(&self, row: &TableRow) -> Result<bool, StoreError> {
        let done = on!(self, |pool| sqlx::query(
            "UPDATE table_rows SET data = $3, updated_at = $4 WHERE id = $1 AND table_id = $2",
        )
        .bind(row.id.as_str())
        .bind(row.table_id.as_str())
        .bind(row.data.to_string())
        .bind(to_column(row.updated_at))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(done > 0)
    }

    /// Forgets a row. False when there was none.
    pub async fn delete_row(&self, table: &ResourceId, id: &RowId) -> Result<bool, StoreError> {
        let done = on!(self, |pool| sqlx::query(
            "DELETE FROM table_rows WHERE id = $1 AND table_id = $2"
        )
        .bind(id.as_str())
        .bind(table.as_str())
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(done > 0)
    }

    /// How many rows a table has.
    pub async fn count_rows(&self, table: &ResourceId) -> Result<u64, StoreError> {
        let count: i64 = on!(self, |pool| sqlx::query_scalar(
            "SELECT count(*) FROM table_rows WHERE table_id = $1"
        )
        .bind(table.as_str())
        .fetch_one(pool)
        .await)?;
        Ok(count.unsigned_abs())
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    table_id: String,
    data: String,
    created_at: i64,
    updated_at: i64,
    position: i64,
}

impl Columns {
    fn into_row(self) -> Result<TableRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        Ok(TableRow {
            id: RowId::parse(&self.id).map_err(|_| damaged("id"))?,
            table_id: ResourceId::parse(ResourceKind::Table, &self.table_id)
                .map_err(|_| damaged("table_id"))?,
            data: serde_json::from_str(&self.data).map_err(|_| damaged("data"))?,
            created_at: from_column(&self.id, "created_at", self.created_at)?,
            updated_at: from_column(&self.id, "updated_at", self.updated_at)?,
            position: self.position,
        })
    }
}
