//! `read_file`, `write_file` and `list_files`.

use std::{
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use serde_json::{Value, json};

use super::{Extent, Fields, Returned, ToolError};
use crate::session::Session;

/// Most entries of a directory that are listed.
const ENTRIES: usize = 2000;

pub(super) async fn read(
    session: &Session,
    fields: &mut Fields<'_>,
) -> Result<Returned, ToolError> {
    let path = path(session, fields.text("path")?);
    fields.end()?;
    let limit = session.limits.tool_result_bytes;
    let (text, extent) = aside(move || read_text(&path, limit)).await?;
    Ok(Returned { value: Value::String(text), extent })
}

pub(super) async fn write(
    session: &Session,
    fields: &mut Fields<'_>,
) -> Result<Returned, ToolError> {
    let path = path(session, fields.text("path")?);
    let content = fields.text("content")?.to_owned();
    fields.end()?;
    aside(move || {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|err| failed(directory, err))?;
        }
        write_text(&path, &content)?;
        Ok(Returned::whole(json!({"path": path, "bytes": content.len()})))
    })
    .await
}

pub(super) async fn list(
    session: &Session,
    fields: &mut Fields<'_>,
) -> Result<Returned, ToolError> {
    let path = path(session, fields.optional_text("path")?.unwrap_or("."));
    fields.end()?;
    aside(move || list_directory(&path)).await
}

/// The path as the model means it. Nothing is out of bounds: the sandbox is.
pub(super) fn path(session: &Session, given: &str) -> PathBuf {
    session.workspace_dir.join(given)
}

/// Runs file work where it may block.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(err) => Err(ToolError::new(format!("the tool broke: {err}"))),
    }
}

/// A text file's content, up to the limit.
pub(super) fn read_text(path: &Path, limit: u64) -> Result<(String, Extent), ToolError> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    let most = limit.saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(|err| failed(path, err))?;
    let extent = if bytes.len() as u64 > limit { Extent::Cut } else { Extent::Whole };
    if extent == Extent::Cut {
        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let no_text = || ToolError::new(format!("{} is not a text file", path.display()));
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => Err(no_text()),
        Ok(text) => Ok((text, extent)),
        // The limit may cut a letter in two.
        Err(err) if extent == Extent::Cut && err.utf8_error().error_len().is_none() => {
            let whole = err.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(&err.as_bytes()[..whole]).into_owned();
            Ok((text, extent))
        }
        Err(_) => Err(no_text()),
    }
}

/// Replaces a file's content, or makes the file.
pub(super) fn write_text(path: &Path, content: &str) -> Result<(), ToolError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(no_file(path)),
        Ok(_) | Err(_) => std::fs::write(path, content).map_err(|err| failed(path, err)),
    }
}

/// What went wrong with a path.
pub(super) fn failed(path: &Path, err: std::io::Error) -> ToolError {
    ToolError::new(format!("{}: {err}", path.display()))
}

/// Opens without waiting: a pipe without a writer would hold us for ever.
fn open_regular(path: &Path) -> Result<std::fs::File, ToolError> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|err| failed(path, err))?;
    let found = file.metadata().map_err(|err| failed(path, err))?;
    if found.is_file() { Ok(file) } else { Err(no_file(path)) }
}

fn no_file(path: &Path) -> ToolError {
    ToolError::new(format!("{} is not a regular file", path.display()))
}

fn list_directory(path: &Path) -> Result<Returned, ToolError> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|err| failed(path, err))? {
        let entry = entry.map_err(|err| failed(path, err))?;
        // Gone again already: then it is not in the directory.
        let Ok(found) = entry.metadata() else { continue };
        entries.push((entry.file_name().to_string_lossy().into_owned(), found));
        if entries.len() > ENTRIES {
            break;
        }
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    let extent = if entries.len() > ENTRIES { Extent::Cut } else { Extent::Whole };
    entries.truncate(ENTRIES);
    let shown = entries.into_iter().map(|(name, found)| {
        if found.is_dir() {
            json!({"name": name, "type": "directory"})
        } else if found.is_symlink() {
            json!({"name": name, "type": "symlink"})
        } else if found.is_file() {
            json!({"name": name, "type": "file", "size": found.len()})
        } else {
            json!({"name": name, "type": "other"})
        }
    });
    let shown: Vec<Value> = shown.collect();
    Ok(Returned { value: json!({"path": path, "entries": shown}), extent })
}
