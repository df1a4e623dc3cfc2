//! `save_file`: keeps files of the execution's bag in the workspace, or writes
//! a new one. All of them are kept, or none.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use serde_json::{Map, Value};
use store::{FileRow, FileSource, Shelf};
use wire::workspace::FileId;

use super::{Broken, Failure, Inputs, Outputs, Scene, files, unfilled};
use crate::{
    bag::{Intake, Place, Target, USER, clean_name, unreadable},
    problem::Problem,
    workflows::{
        check::Violation,
        values::{Pattern, Template},
    },
};

const FILES: &str = "files";
const NAME: &str = "name";
const CONTENT: &str = "content";

/// The inputs of the block.
#[derive(Debug)]
pub(crate) enum SaveFile {
    /// Files that another block has made.
    Files(Template),
    /// A file with this name and content.
    Content { name: Template, content: Pattern },
}

impl SaveFile {
    pub(super) fn read(inputs: &mut Inputs<'_>) -> Result<SaveFile, Violation> {
        let reference = "must be one reference to files, such as `{{agent.files}}`";
        let files = inputs.take(FILES).map(Value::is_string);
        if files == Some(false) {
            return Err(inputs.wrong(FILES, reference));
        }
        let files = inputs.text(FILES)?;
        let name = inputs.text(NAME)?;
        let content = inputs.pattern(CONTENT)?;
        match (files, name, content) {
            (Some(files), None, None) if files.is_one_reference() => Ok(SaveFile::Files(files)),
            (Some(_), None, None) => Err(inputs.wrong(FILES, reference)),
            (Some(_), Some(_), _) => {
                Err(inputs.wrong(NAME, "either `files`, or `name` and `content`"))
            }
            (Some(_), None, Some(_)) => {
                Err(inputs.wrong(CONTENT, "either `files`, or `name` and `content`"))
            }
            (None, Some(name), Some(content)) => Ok(SaveFile::Content { name, content }),
            (None, Some(_), None) => Err(inputs.missing(CONTENT)),
            (None, None, Some(_)) => Err(inputs.missing(NAME)),
            (None, None, None) => {
                Err(inputs.wrong(FILES, "is missing, and so are `name` and `content`"))
            }
        }
    }

    pub(super) async fn carry_out(&self, scene: Scene<'_>) -> Result<Outputs, Broken> {
        let target = Target {
            workspace: scene.execution.workspace.clone(),
            place: Place::Files,
            source: FileSource::Sandbox,
            limits: USER,
        };
        let kept = match self {
            SaveFile::Files(template) => {
                let value = template.value(scene.values).map_err(unfilled(FILES))?;
                let rows = rows(&scene, &value).await?;
                let mut intake = Intake::open(scene.workspace, target).await?;
                let copied = copy(&scene, &mut intake, &rows).await;
                intake.close(copied).await?
            }
            SaveFile::Content { name, content } => {
                let name = clean_name(&name.text(scene.values).map_err(unfilled(NAME))?);
                let content = match content.value(scene.values).map_err(unfilled(CONTENT))? {
                    Value::String(text) => text,
                    other @ (Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Array(_)
                    | Value::Object(_)) => format!("{other:#}\n"),
                };
                let mut intake = Intake::open(scene.workspace, target).await?;
                let bytes = stream::iter([Ok::<_, Infallible>(Bytes::from(content))]);
                let added = intake.add(&name, bytes).await;
                intake.close(added).await?
            }
        };
        let kept = kept.into_iter().map(files::to_json).collect();
        Ok(Map::from_iter([(FILES.to_owned(), Value::Array(kept))]))
    }
}

/// The rows of the files that a value names. Of what it says, only ids count.
async fn rows(scene: &Scene<'_>, value: &Value) -> Result<Vec<FileRow>, Broken> {
    let listed = match value {
        Value::Array(list) => list.as_slice(),
        Value::Object(_) => std::slice::from_ref(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let message = format!("inputs.{FILES}: is not a file or a list of files");
            return Err(Failure::new("bad_input", message).into());
        }
    };
    let mut ids = Vec::with_capacity(listed.len());
    for one in listed {
        let id = one.get("id").and_then(Value::as_str).and_then(|id| FileId::parse(id).ok());
        ids.push(id.ok_or_else(|| {
            Failure::new("bad_input", format!("inputs.{FILES}: `{one}` is not a file"))
        })?);
    }
    let bag = Shelf::Bag(scene.execution.id.as_str());
    let rows = scene.workspace.store.files_by_id(&scene.execution.workspace, bag, &ids).await?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let row = rows.iter().find(|row| row.id == id).cloned();
        found.push(row.ok_or_else(|| {
            let message = format!("inputs.{FILES}: `{id}` is no file of this execution");
            Failure::new("bad_input", message)
        })?);
    }
    Ok(found)
}

async fn copy(scene: &Scene<'_>, intake: &mut Intake, rows: &[FileRow]) -> Result<(), Problem> {
    for row in rows {
        let blob = scene.workspace.blobs.get(&row.storage_key).await;
        let blob = blob.map_err(|err| unreadable(row, err))?;
        intake.add(&row.name, blob.bytes).await?;
    }
    Ok(())
}
