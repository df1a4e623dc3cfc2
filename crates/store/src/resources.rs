//! Resources: what the owner of a workspace makes and names.
//!
//! Agents, environments, models, skills, MCP servers, tables and workflows are
//! rows of one table. What is in a body is the workspace's affair; here it is
//! JSON. Secrets come sealed, and the key that opens them is not in the store.

use chrono::{DateTime, Utc};
use serde_json::Value;
use wire::workspace::{ResourceId, ResourceKind};

use crate::database::{Store, StoreError, from_column, on, to_column, without_nul};

/// One resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRow {
    /// Its public name.
    pub id: ResourceId,
    /// Whose it is.
    pub workspace: String,
    /// What it is.
    pub kind: ResourceKind,
    /// What its owner calls it: no two of one kind in a workspace share a name.
    pub name: String,
    /// Everything of it that is not a secret.
    pub body: Value,
    /// Its secrets, sealed.
    pub sealed: Option<Vec<u8>>,
    /// When it was made, to the millisecond.
    pub created_at: DateTime<Utc>,
    /// When it was last changed, to the millisecond.
    pub updated_at: DateTime<Utc>,
}

/// A resource could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// Another of its kind has the name.
    #[error("the name `{0}` is taken")]
    NameTaken(String),
    /// There is none with that id, or it is somebody else's.
    #[error("there is no such resource")]
    NotFound,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Adds a resource.
    pub async fn create_resource(&self, row: &ResourceRow) -> Result<(), ResourceError> {
        let done = on!(self, |pool| sqlx::query(
            "INSERT INTO resources
                 (id, workspace, kind, name, body, sealed, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (workspace, kind, name) DO NOTHING",
        )
        .bind(row.id.as_str())
        .bind(&row.workspace)
        .bind(row.kind.name())
        .bind(without_nul(&row.name))
        .bind(row.body.to_string())
        .bind(row.sealed.as_deref())
        .bind(to_column(row.created_at))
        .bind(to_column(row.updated_at))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))
        .map_err(StoreError::from)?;
        if done == 0 { Err(ResourceError::NameTaken(row.name.clone())) } else { Ok(()) }
    }

    /// One resource by its id.
    pub async fn resource(
        &self,
        workspace: &str,
        kind: ResourceKind,
        id: &ResourceId,
    ) -> Result<Option<ResourceRow>, StoreError> {
        let columns: Option<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM resources WHERE id = $1 AND workspace = $2 AND kind = $3",
        )
        .bind(id.as_str())
        .bind(workspace)
        .bind(kind.name())
        .fetch_optional(pool)
        .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// One resource by its name.
    pub async fn resource_by_name(
        &self,
        workspace: &str,
        kind: ResourceKind,
        name: &str,
    ) -> Result<Option<ResourceRow>, StoreError> {
        let columns: Option<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM resources WHERE workspace = $1 AND kind = $2 AND name = $3",
        )
        .bind(workspace)
        .bind(kind.name())
        .bind(without_nul(name))
        .fetch_optional(pool)
        .await)?;
        columns.map(Columns::into_row).transpose()
    }

    /// The workspace's resources of one kind, oldest first, at most `limit` of
    /// them, behind the one that was made then and has that id, be it there or not.
    pub async fn list_resources(
        &self,
        workspace: &str,
        kind: ResourceKind,
        after: Option<(DateTime<Utc>, &str)>,
        limit: u32,
    ) -> Result<Vec<ResourceRow>, StoreError> {
        // Nothing was made before the first moment, so all come after it.
        let (time, id) = after.map_or((i64::MIN, ""), |(time, id)| (to_column(time), id));
        let columns: Vec<Columns> = on!(self, |pool| sqlx::query_as(
            "SELECT * FROM resources
             WHERE workspace = $1 AND kind = $2 AND (created_at, id) > ($3, $4)
             ORDER BY created_at, id LIMIT $5",
        )
        .bind(workspace)
        .bind(kind.name())
        .bind(time)
        .bind(id)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await)?;
        columns.into_iter().map(Columns::into_row).collect()
    }

    /// How many resources of one kind the workspace has.
    pub async fn count_resources(
        &self,
        workspace: &str,
        kind: ResourceKind,
    ) -> Result<u64, StoreError> {
        let count: i64 = on!(self, |pool| sqlx::query_scalar(
            "SELECT count(*) FROM resources WHERE workspace = $1 AND kind = $2"
        )
        .bind(workspace)
        .bind(kind.name())
        .fetch_one(pool)
        .await)?;
        Ok(count.unsigned_abs())
    }

    /// Changes name, body, secrets and the time of the last change.
    pub async fn update_resource(&self, row: &ResourceRow) -> Result<(), ResourceError> {
        let done = on!(self, |pool| sqlx::query(
            "UPDATE resources SET name = $4, body = $5, sealed = $6, updated_at = $7
             WHERE id = $1 AND workspace = $2 AND kind = $3",
        )
        .bind(row.id.as_str())
        .bind(&row.workspace)
        .bind(row.kind.name())
        .bind(without_nul(&row.name))
        .bind(row.body.to_string())
        .bind(row.sealed.as_deref())
        .bind(to_column(row.updated_at))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))
        .map_err(StoreError::from);
        match done {
            Ok(0) => Err(ResourceError::NotFound),
            Ok(_) => Ok(()),
            Err(err) if err.is_taken() => Err(ResourceError::NameTaken(row.name.clone())),
            Err(err) => Err(err.into()),
        }
    }

    /// Forgets a resource, and the rows of a table with it. False when there
    /// was none.
    pub async fn delete_resource(
        &self,
        workspace: &str,
        kind: ResourceKind,
        id: &ResourceId,
    ) -> Result<bool, StoreError> {
        let done = on!(self, |pool| sqlx::query(
            "DELETE FROM resources WHERE id = $1 AND workspace = $2 AND kind = $3",
        )
        .bind(id.as_str())
        .bind(workspace)
        .bind(kind.name())
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(done > 0)
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    workspace: String,
    kind: String,
    name: String,
    body: String,
    sealed: Option<Vec<u8>>,
    created_at: i64,
    updated_at: i64,
}

impl Columns {
    fn into_row(self) -> Result<ResourceRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        let kind = ResourceKind::parse_name(&self.kind).ok_or_else(|| damaged("kind"))?;
        Ok(ResourceRow {
            id: ResourceId::parse(kind, &self.id).map_err(|_| damaged("id"))?,
            kind,
            body: serde_json::from_str(&self.body).map_err(|_| damaged("body"))?,
            created_at: from_column(&self.id, "created_at", self.created_at)?,
            updated_at: from_column(&self.id, "updated_at", self.updated_at)?,
            workspace: self.workspace,
            name: self.name,
            sealed: self.sealed,
        })
    }
}
