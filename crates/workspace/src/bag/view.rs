//! Files as the API shows them.

use chrono::{DateTime, Utc};
use serde::Serialize;
use store::{FileRow, FileSource};
use utoipa::ToSchema;
use wire::workspace::FileId;

use super::Place;
use crate::{
    page::{Page, PageQuery},
    problem::Problem,
    state::Workspace,
};

/// A file of a bag or of the workspace.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileView {
    /// Its name in the API.
    id: String,
    /// The conversation or execution whose bag it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_id: Option<String>,
    /// The message it was attached to.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// What it is called.
    pub(crate) name: String,
    /// What it holds, by its content.
    mime_type: String,
    /// Its size in bytes.
    size: u64,
    /// SHA-256 of its content, in hex.
    sha256: String,
    /// Where its content is kept.
    storage_key: String,
    /// Who made it.
    source: Source,
    /// When it came.
    created_at: DateTime<Utc>,
}

/// Who made a file.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Source {
    /// Uploaded by a user.
    User,
    /// Written back by a run.
    Sandbox,
}

/// Files as they are sent.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form, which is read part by part")]
pub(crate) struct FileForm {
    /// A part for each file, with its file name.
    #[schema(value_type = Vec<String>, format = Binary, min_items = 1)]
    file: Vec<Vec<u8>>,
}

/// What an upload stored.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UploadedFiles {
    /// The files, in the order in which they came.
    pub(crate) files: Vec<FileView>,
}

impl From<FileRow> for FileView {
    fn from(row: FileRow) -> FileView {
        let source = match row.source {
            FileSource::User => Source::User,
            FileSource::Sandbox => Source::Sandbox,
        };
        FileView {
            id: row.id.to_string(),
            chat_id: row.bag,
            message_id: row.message_id.map(|id| id.to_string()),
            name: row.name,
            mime_type: row.mime_type,
            size: row.size,
            sha256: row.sha256,
            storage_key: row.storage_key,
            source,
            created_at: row.created_at,
        }
    }
}

impl From<Vec<FileRow>> for UploadedFiles {
    fn from(rows: Vec<FileRow>) -> UploadedFiles {
        UploadedFiles { files: rows.into_iter().map(FileView::from).collect() }
    }
}

/// One page of the files there, the oldest first.
pub(crate) async fn list(
    workspace: &Workspace,
    owner: &str,
    place: &Place,
    query: &PageQuery,
) -> Result<Page<FileView>, Problem> {
    let limit = query.limit()?;
    let after = query.cursor.as_deref().map(FileId::parse).transpose();
    let after = after.map_err(|err| Problem::bad_field("cursor", err.to_string()))?;
    let rows = workspace.store.list_files(owner, place.shelf(), after.as_ref(), limit + 1).await?;
    let views = rows.into_iter().map(FileView::from).collect();
    Ok(Page::cut(views, limit, |view: &FileView| view.id.clone()))
}
