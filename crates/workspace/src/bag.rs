//! The file bag: the files of one conversation or one execution, which the
//! workspace and the sandbox both can read.
//!
//! ```text
//! upload or writeback ──► intake (reserve, put, commit) ──► rows and blobs
//! rows and blobs ──► list, content, promote; zip behind a signed address ──► sandbox
//! ```
//!
//! A bag lives with what it belongs to. Nothing leaves it on its own.

mod content;
mod conversation;
mod intake;
mod limits;
mod mime;
mod naming;
mod signed_url;
mod upload;
mod view;
mod zip;

use utoipa_axum::router::OpenApiRouter;

use crate::state::Workspace;

pub(crate) use content::{answer as content_answer, unreadable};
pub(crate) use intake::{Intake, Place, Target};
pub(crate) use limits::{USER, WRITEBACK};
pub(crate) use naming::clean as clean_name;
pub(crate) use signed_url::project;
pub(crate) use upload::{form as receive_form, raw as receive_raw};
pub(crate) use view::{FileForm, FileView, UploadedFiles, list};

/// The routes of conversations' bags.
pub(crate) fn routes() -> OpenApiRouter<Workspace> {
    conversation::routes().merge(signed_url::routes())
}
