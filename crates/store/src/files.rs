//! Files: those in a bag, and those of the workspace.
//!
//! ```text
//! reserve ──► invisible, has a name ──► commit ──► visible ──► deleted (hidden, name kept)
//!                      └──► dropped (name free again)
//! ```
//!
//! A row names the blob; the bytes are in `blobs`. How names are given is in
//! `reserve`.

mod reserve;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::AssertSqlSafe;
use wire::workspace::{FileId, MessageId};

use crate::database::{Store, StoreError, from_column, on, to_column};
use crate::streams::count;

pub use self::reserve::{ReserveError, Reserved};

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf<'a> {
    /// In the bag of the chat or the execution with this id.
    Bag(&'a str),
    /// Among the files of the workspace.
    Files,
}

/// Who made a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSource {
    /// Somebody uploaded it.
    User,
    /// A run wrote it back.
    Sandbox,
}

/// One file that can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// Its public name.
    pub id: FileId,
    /// Whose it is.
    pub workspace: String,
    /// The chat or the execution whose bag it is in, if it is in one.
    pub bag: Option<String>,
    /// The message it came with.
    pub message_id: Option<MessageId>,
    /// What people call it; no other file in the same place has this name.
    pub name: String,
    /// What its bytes are.
    pub mime_type: String,
    /// How many there are.
    pub size: u64,
    /// Their SHA-256 in lowercase hex.
    pub sha256: String,
    /// The key of its blob.
    pub storage_key: String,
    /// Who made it.
    pub source: FileSource,
    /// When it was begun, to the millisecond.
    pub created_at: DateTime<Utc>,
    /// When it was deleted; what is read has never been.
    pub deleted_at: Option<DateTime<Utc>>,
}

impl FileSource {
    /// The name in the store and in answers.
    pub fn name(self) -> &'static str {
        match self {
            FileSource::User => "user",
            FileSource::Sandbox => "sandbox",
        }
    }

    fn parse(name: &str) -> Option<FileSource> {
        [FileSource::User, FileSource::Sandbox].into_iter().find(|source| source.name() == name)
    }
}

/// The table of a kind of shelf.
#[derive(Clone, Copy, Debug)]
struct Table {
    name: &'static str,
    /// The column that says on which shelf a file is.
    shelf: &'static str,
    /// What `Columns` is made of.
    columns: &'static str,
}

const BAG_FILES: Table = Table {
    name: "assistant_chat_bag_files",
    shelf: "chat_id",
    columns: "id, workspace, chat_id AS bag, message_id, name, mime_type, size, sha256,
         storage_key, source, created_at, deleted_at",
};

const WORKSPACE_FILES: Table = Table {
    name: "workspace_files",
    shelf: "workspace",
    columns: "id, workspace, CAST(NULL AS TEXT) AS bag, CAST(NULL AS TEXT) AS message_id, name,
         mime_type, size, sha256, storage_key, source, created_at, deleted_at",
};

const TABLES: [Table; 2] = [BAG_FILES, WORKSPACE_FILES];

/// What is neither reserved nor deleted.
const VISIBLE: &str = "committed_at IS NOT NULL AND deleted_at IS NULL";

impl<'a> Shelf<'a> {
    fn table(self) -> Table {
        match self {
            Shelf::Bag(_) => BAG_FILES,
            Shelf::Files => WORKSPACE_FILES,
        }
    }

    /// What the shelf's column holds.
    fn key(self, workspace: &'a str) -> &'a str {
        match self {
            Shelf::Bag(bag) => bag,
            Shelf::Files => workspace,
        }
    }
}

impl Store {
    /// One file of the workspace on that shelf.
    pub async fn file(
        &self,
        workspace: &str,
        shelf: Shelf<'_>,
        id: &FileId,
    ) -> Result<Option<FileRow>, StoreError> {
        let files = self.files_by_id(workspace, shelf, std::slice::from_ref(id)).await?;
        Ok(files.into_iter().next())
    }

    /// The files with these ids, in this order; those not there are left out.
    pub async fn files_by_id(
        &self,
        workspace: &str,
        shelf: Shelf<'_>,
        ids: &[FileId],
    ) -> Result<Vec<FileRow>, StoreError> {
        let Table { name, shelf: column, columns } = shelf.table();
        let mut found = HashMap::new();
        for ids in ids.chunks(crate::streams::AT_ONCE) {
            let rows: Vec<Columns> = on!(self, |pool| {
                let mut select = sqlx::QueryBuilder::new(format!(
                    "SELECT {columns} FROM {name} WHERE {VISIBLE} AND workspace = "
                ));
                select.push_bind(workspace);
                select.push(format!(" AND {column} = ")).push_bind(shelf.key(workspace));
                select.push(" AND id IN (");
                let mut list = select.separated(", ");
                for id in ids {
                    list.push_bind(id.as_str());
                }
                select.push(")");
                select.build_query_as().persistent(false).fetch_all(pool).await
            })?;
            for row in rows {
                found.insert(row.id.clone(), row.into_row()?);
            }
        }
        Ok(ids.iter().filter_map(|id| found.remove(id.as_str())).collect())
    }

    /// The files of the workspace on that shelf, oldest first, behind that one.
    pub async fn list_files(
        &self,
        workspace: &str,
        shelf: Shelf<'_>,
        after: Option<&FileId>,
        limit: u32,
    ) -> Result<Vec<FileRow>, StoreError> {
        let Table { name, shelf: column, columns } = shelf.table();
        let rows: Vec<Columns> = on!(self, |pool| sqlx::query_as(AssertSqlSafe(format!(
            "SELECT {columns} FROM {name}
             WHERE {column} = $1 AND workspace = $2 AND {VISIBLE}
                 AND ($3 IS NULL
                     OR (created_at, id) > (SELECT created_at, id FROM {name} WHERE id = $3))
             ORDER BY created_at, id LIMIT $4"
        )))
        .bind(shelf.key(workspace))
        .bind(workspace)
        .bind(after.map(FileId::as_str))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await)?;
        rows.into_iter().map(Columns::into_row).collect()
    }

    /// Hides a file; its name stays taken and its blob stays. False when it is
    /// not there.
    pub async fn delete_file(
        &self,
        workspace: &str,
        shelf: Shelf<'_>,
        id: &FileId,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let Table { name, shelf: column, .. } = shelf.table();
        let deleted = on!(self, |pool| sqlx::query(AssertSqlSafe(format!(
            "UPDATE {name} SET deleted_at = $4
             WHERE id = $1 AND {column} = $2 AND workspace = $3 AND {VISIBLE}"
        )))
        .bind(id.as_str())
        .bind(shelf.key(workspace))
        .bind(workspace)
        .bind(to_column(now))
        .execute(pool)
        .await
        .map(|done| done.rows_affected()))?;
        Ok(deleted > 0)
    }

    /// How many files a bag has, reserved ones too, and how many bytes.
    pub async fn bag_totals(&self, bag: &str) -> Result<(u64, u64), StoreError> {
        let (files, bytes): (i64, i64) = on!(self, |pool| sqlx::query_as(
            "SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT)
             FROM assistant_chat_bag_files WHERE chat_id = $1 AND deleted_at IS NULL",
        )
        .bind(bag)
        .fetch_one(pool)
        .await)?;
        Ok((count(bag, "id", files)?, count(bag, "size", bytes)?))
    }
}

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
struct Columns {
    id: String,
    workspace: String,
    bag: Option<String>,
    message_id: Option<String>,
    name: String,
    mime_type: String,
    size: i64,
    sha256: String,
    storage_key: String,
    source: String,
    created_at: i64,
    deleted_at: Option<i64>,
}

impl Columns {
    fn into_row(self) -> Result<FileRow, StoreError> {
        let damaged = |column| StoreError::Damaged { id: self.id.clone(), column };
        let message = |id: &String| MessageId::parse(id).map_err(|_| damaged("message_id"));
        Ok(FileRow {
            id: FileId::parse(&self.id).map_err(|_| damaged("id"))?,
            message_id: self.message_id.as_ref().map(message).transpose()?,
            size: count(&self.id, "size", self.size)?,
            source: FileSource::parse(&self.source).ok_or_else(|| damaged("source"))?,
            created_at: from_column(&self.id, "created_at", self.created_at)?,
            deleted_at: self
                .deleted_at
                .map(|at| from_column(&self.id, "deleted_at", at))
                .transpose()?,
            workspace: self.workspace,
            bag: self.bag,
            name: self.name,
            mime_type: self.mime_type,
            sha256: self.sha256,
            storage_key: self.storage_key,
        })
    }
}
