//! How a file gets a name nobody else has, and then its bytes.
//!
//! The second `report.pdf` of a bag is `report-1.pdf`, the third `report-2.pdf`.
//! A name is reserved before the first byte is stored, because the blob's key
//! is made of it, and a name is not given again as long as its row is there:
//! no blob is ever overwritten. Names are picked one at a time, while the row
//! of the shelf is held.

use chrono::{DateTime, Utc};
use sqlx::AssertSqlSafe;
use wire::workspace::{ExecutionId, FileId};

use super::{Columns, FileRow, FileSource, Shelf, TABLES, Table};
use crate::database::{Store, StoreError, on, to_column, transaction, without_nul};
use crate::streams::AT_ONCE;

/// How many files a bag may have.
const MOST_FILES: i64 = 10_000;
/// Holds the row of a shelf and counts one more.
const HOLD_SHELF: &str = "INSERT INTO file_shelves (shelf, given) VALUES ($1, 1)
     ON CONFLICT (shelf) DO UPDATE SET given = file_shelves.given + 1 RETURNING given";
/// As long as a name may be in most file systems, in bytes.
const LONGEST_NAME: usize = 255;
/// What is longer than this behind the last dot is no extension.
const LONGEST_EXTENSION: usize = 32;

/// A name and a place for a file whose bytes are still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The file's public name.
    pub id: FileId,
    /// The name it got.
    pub name: String,
    /// Where its blob is to be put.
    pub storage_key: String,
}

/// A file got no name.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// The workspace has no such conversation or execution.
    #[error("there is no such conversation")]
    NoConversation,
    /// The bag has as many files as it may have.
    #[error("the bag is full: it has {MOST_FILES} files")]
    TooMany,
    /// The query failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for ReserveError {
    fn from(error: sqlx::Error) -> ReserveError {
        ReserveError::Store(error.into())
    }
}

/// Why nothing was committed.
enum NotCommitted {
    /// A file is not reserved any more.
    Gone,
    Store(StoreError),
}

impl From<StoreError> for NotCommitted {
    fn from(error: StoreError) -> NotCommitted {
        NotCommitted::Store(error)
    }
}

impl From<sqlx::Error> for NotCommitted {
    fn from(error: sqlx::Error) -> NotCommitted {
        NotCommitted::Store(error.into())
    }
}

impl Store {
    /// Gives a file the name it wants, or the next one that is free.
    #[expect(clippy::too_many_arguments, reason = "the columns of the row, each of its own type")]
    pub async fn reserve_file(
        &self,
        workspace: &str,
        shelf: Shelf<'_>,
        id: FileId,
        wanted_name: &str,
        source: FileSource,
        now: DateTime<Utc>,
        key_of: impl Fn(&str) -> String,
    ) -> Result<Reserved, ReserveError> {
        let wanted = without_nul(wanted_name);
        let Table { name: table, shelf: column, .. } = shelf.table();
        let place = shelf.key(workspace);
        let held = self.for_update();
        let highest =
            format!("SELECT MAX(number) FROM {table} WHERE {column} = $1 AND wanted_name = $2");
        let insert = insert(shelf);
        transaction!(self, |tx| {
            if let Shelf::Bag(bag) = shelf {
                // Nobody deletes the owner of the bag meanwhile.
                let owner: Option<(String,)> =
                    sqlx::query_as(AssertSqlSafe(format!("{}{held}", owner_of(bag))))
                        .bind(bag)
                        .bind(workspace)
                        .fetch_optional(&mut **tx)
                        .await?;
                if owner.is_none() {
                    return Err(ReserveError::NoConversation);
                }
            }
            let (given,): (i64,) =
                sqlx::query_as(HOLD_SHELF).bind(place).fetch_one(&mut **tx).await?;
            // Counting takes its time, and most bags are far from full.
            if let Shelf::Bag(bag) = shelf
                && given > MOST_FILES
            {
                let (files,): (i64,) = sqlx::query_as(
                    "SELECT COUNT(*) FROM assistant_chat_bag_files
                     WHERE chat_id = $1 AND deleted_at IS NULL",
                )
                .bind(bag)
                .fetch_one(&mut **tx)
                .await?;
                if files >= MOST_FILES {
                    return Err(ReserveError::TooMany);
                }
            }
            let (highest,): (Option<i64>,) = sqlx::query_as(AssertSqlSafe(highest.as_str()))
                .bind(place)
                .bind(wanted.as_ref())
                .fetch_one(&mut **tx)
                .await?;
            // The plain name may be free again. A higher number may be taken by
            // a file that wanted just that name.
            let mut number = 0;
            loop {
                let name = numbered(&wanted, number);
                let storage_key = key_of(&name);
                let inserted = sqlx::query(AssertSqlSafe(insert.as_str()))
                    .bind(id.as_str())
                    .bind(workspace)
                    .bind(place)
                    .bind(&name)
                    .bind(wanted.as_ref())
                    .bind(number)
                    .bind(&storage_key)
                    .bind(source.name())
                    .bind(to_column(now))
                    .execute(&mut **tx)
                    .await?
                    .rows_affected();
                if inserted > 0 {
                    break Ok::<_, ReserveError>(Reserved { id: id.clone(), name, storage_key });
                }
                number = number.max(highest.unwrap_or(0)) + 1;
            }
        })
    }

    /// Makes reserved files visible: each with its MIME type, size and SHA-256.
    /// All or none: the list is empty when one of them is not reserved any more.
    pub async fn commit_files(
        &self,
        files: &[(FileId, String, u64, String)],
    ) -> Result<Vec<FileRow>, StoreError> {
        let now = to_column(Utc::now());
        let committed: Result<Vec<Columns>, NotCommitted> = transaction!(self, |tx| {
            let mut rows = Vec::with_capacity(files.len());
            for (id, mime_type, size, sha256) in files {
                let mut committed: Option<Columns> = None;
                for Table { name, columns, .. } in TABLES {
                    if committed.is_some() {
                        continue;
                    }
                    committed = sqlx::query_as(AssertSqlSafe(format!(
                        "UPDATE {name} SET mime_type = $2, size = $3, sha256 = $4,
                             committed_at = $5
                         WHERE id = $1 AND committed_at IS NULL AND deleted_at IS NULL
                         RETURNING {columns}"
                    )))
                    .bind(id.as_str())
                    .bind(without_nul(mime_type))
                    .bind(crate::database::number(*size))
                    .bind(sha256)
                    .bind(now)
                    .fetch_optional(&mut **tx)
                    .await?;
                }
                rows.push(committed.ok_or(NotCommitted::Gone)?);
            }
            Ok::<_, NotCommitted>(rows)
        });
        match committed {
            Ok(rows) => rows.into_iter().map(Columns::into_row).collect(),
            Err(NotCommitted::Gone) => Ok(Vec::new()),
            Err(NotCommitted::Store(error)) => Err(error),
        }
    }

    /// Makes sure that reservations are never committed, and says of which that
    /// is true: of those that are not committed already.
    pub async fn give_up_reserved(
        &self,
        files: &[FileId],
        now: DateTime<Utc>,
    ) -> Result<Vec<FileId>, StoreError> {
        let mut given_up = Vec::new();
        for Table { name, .. } in TABLES {
            for files in files.chunks(AT_ONCE) {
                let rows: Vec<(String,)> = on!(self, |pool| {
                    let mut update =
                        sqlx::QueryBuilder::new(format!("UPDATE {name} SET deleted_at = "));
                    update
                        .push_bind(to_column(now))
                        .push(" WHERE committed_at IS NULL AND id IN (");
                    let mut list = update.separated(", ");
                    for id in files {
                        list.push_bind(id.as_str());
                    }
                    update.push(") RETURNING id");
                    update.build_query_as().persistent(false).fetch_all(pool).await
                })?;
                given_up.extend(rows);
            }
        }
        let parse = |(id,): (String,)| {
            FileId::parse(&id).map_err(|_| StoreError::Damaged { id, column: "id" })
        };
        given_up.into_iter().map(parse).collect()
    }

    /// Drops reservations, whose names are free again. The blobs have to be
    /// gone before. What is committed stays.
    pub async fn drop_reserved(&self, files: &[FileId]) -> Result<(), StoreError> {
        transaction!(self, |tx| {
            for Table { name, .. } in TABLES {
                for files in files.chunks(AT_ONCE) {
                    let mut delete = sqlx::QueryBuilder::new(format!(
                        "DELETE FROM {name} WHERE committed_at IS NULL AND id IN ("
                    ));
                    let mut list = delete.separated(", ");
                    for id in files {
                        list.push_bind(id.as_str());
                    }
                    delete.push(")");
                    delete.build().persistent(false).execute(&mut **tx).await?;
                }
            }
            Ok::<_, StoreError>(())
        })
    }

    /// Reservations made before then, and where their blobs would be. They can
    /// no longer be committed; their names are taken until they are dropped.
    pub async fn stale_reservations(
        &self,
        before: DateTime<Utc>,
    ) -> Result<Vec<(FileId, String)>, StoreError> {
        let mut stale = Vec::new();
        for Table { name, .. } in TABLES {
            let rows: Vec<(String, String)> =
                on!(self, |pool| sqlx::query_as(AssertSqlSafe(format!(
                    "UPDATE {name} SET deleted_at = $1
                     WHERE committed_at IS NULL AND created_at < $1
                     RETURNING id, storage_key"
                )))
                .bind(to_column(before))
                .fetch_all(pool)
                .await)?;
            for (id, storage_key) in rows {
                let parsed = FileId::parse(&id);
                let file = parsed.map_err(|_| StoreError::Damaged { id, column: "id" })?;
                stale.push((file, storage_key));
            }
        }
        Ok(stale)
    }
}

/// Finds the conversation or the execution that the bag is of.
fn owner_of(bag: &str) -> &'static str {
    if ExecutionId::parse(bag).is_ok() {
        "SELECT id FROM executions WHERE id = $1 AND workspace = $2"
    } else {
        "SELECT id FROM conversations WHERE id = $1 AND workspace = $2 AND deleted_at IS NULL"
    }
}

/// Adds a reserved file, unless its name is taken.
fn insert(shelf: Shelf<'_>) -> String {
    let Table { name, shelf: column, .. } = shelf.table();
    let (own_column, own_value) = match shelf {
        Shelf::Bag(_) => ("workspace, chat_id", "$2, $3"),
        Shelf::Files => ("workspace", "$3"),
    };
    format!(
        "INSERT INTO {name}
             (id, {own_column}, name, wanted_name, number, storage_key, source, created_at)
         VALUES ($1, {own_value}, $4, $5, $6, $7, $8, $9)
         ON CONFLICT ({column}, name) DO NOTHING"
    )
}

/// `report.pdf`, `report-1.pdf`, `report-2.pdf`, …, none of them too long.
fn numbered(name: &str, number: i64) -> String {
    if number == 0 {
        return name.to_owned();
    }
    let suffix = format!("-{number}");
    let (stem, extension) = match name.rfind('.') {
        Some(dot) if dot > 0 && name.len() - dot <= LONGEST_EXTENSION => name.split_at(dot),
        Some(_) | None => (name, ""),
    };
    let room = LONGEST_NAME.saturating_sub(suffix.len() + extension.len());
    let stem = &stem[..stem.floor_char_boundary(room)];
    format!("{stem}{suffix}{extension}")
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn a_number_goes_before_the_extension() {
        for (name, expected) in [
            ("report.pdf", "report-7.pdf"),
            ("archive.tar.gz", "archive.tar-7.gz"),
            ("Makefile", "Makefile-7"),
            (".bashrc", ".bashrc-7"),
            (
                "Dr. Jekyll and Mr Hyde, unabridged edition",
                "Dr. Jekyll and Mr Hyde, unabridged edition-7",
            ),
        ] {
            assert_eq!(numbered(name, 7), expected);
            assert_eq!(numbered(name, 0), name);
        }
    }

    #[test]
    fn a_numbered_name_is_not_too_long() {
        let name = format!("{}.pdf", "ä".repeat(125));
        let numbered = numbered(&name, 1234);
        assert!(numbered.len() <= 255 && numbered.ends_with("ä-1234.pdf"), "{numbered}");
    }
}
