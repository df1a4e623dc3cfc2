//! The bag of the execution, as blocks see it.

use serde_json::Value;
use store::{FileRow, Shelf};

use super::{Broken, Scene};
use crate::bag::FileView;

/// How many rows are read at once.
const BATCH: u32 = 200;

/// Everything in the bag of the execution.
pub(super) async fn in_bag(scene: &Scene<'_>) -> Result<Vec<FileRow>, Broken> {
    let (store, owner) = (&scene.workspace.store, &scene.execution.workspace);
    let shelf = || Shelf::Bag(scene.execution.id.as_str());
    let mut all: Vec<FileRow> = Vec::new();
    loop {
        let after = all.last().map(|file| &file.id);
        let batch = store.list_files(owner, shelf(), after, BATCH).await?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend(batch);
    }
}

/// A file as blocks hand it on: as the API shows it.
pub(super) fn to_json(file: FileRow) -> Value {
    // Strings and numbers: nothing that could not be written.
    serde_json::to_value(FileView::from(file)).unwrap_or_default()
}
