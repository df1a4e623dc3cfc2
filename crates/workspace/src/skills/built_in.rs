//! The skills that every workspace has: real bundles, whose recipes call back
//! into the workspace's API with the sandbox's bearer. Their files are part of
//! the program and are packed when the first of them is asked for.

use std::{
    io::{Read, Seek, Write},
    sync::OnceLock,
};

use bytes::Bytes;
use wire::agent::{SkillId, SkillVersion};

use super::{
    bundle::{self, Bundle, BundleError},
    folder::{Entry, Folder},
};

/// A skill of ours, packed.
#[derive(Debug)]
pub(super) struct BuiltIn {
    pub(super) id: SkillId,
    pub(super) version: SkillVersion,
    pub(super) description: String,
    pub(super) files: usize,
    pub(super) zip: Bytes,
}

/// Path and content of a file.
type Source = (&'static str, &'static str);

macro_rules! file {
    ($at:literal, $from:literal) => {
        ($at, include_str!(concat!("../../skills/", $from)))
    };
}

macro_rules! recipes {
    ($skill:literal: $($name:literal),+) => {
        &[
            ("SKILL.md", include_str!(concat!("../../skills/", $skill, "/SKILL.md"))),
            $((
                concat!("recipes/", $name, ".sh"),
                include_str!(concat!("../../skills/", $skill, "/recipes/", $name, ".sh")),
            ),)+
        ]
    };
}

/// What every recipe uses.
const SHARED: &[Source] = &[
    file!("lib/api.sh", "shared/api.sh"),
    file!("lib/curl.sh", "shared/curl.sh"),
    file!("lib/python.sh", "shared/python.sh"),
    file!("lib/api.py", "shared/api.py"),
];

const TABLES: &[Source] = recipes!(
    "actana_tables":
    "add-rows", "create-table", "delete-row", "list-rows", "list-tables", "update-row"
);

const FILES: &[Source] =
    recipes!("actana_files": "delete-file", "list-files", "read-file", "save-file");

const WORKFLOW_EDITOR: &[Source] = recipes!(
    "actana_workflow_editor":
    "add-node", "connect-nodes", "create-workflow", "get-workflow", "list-workflows",
    "remove-node", "update-workflow"
);

/// What its changing recipes use besides.
const WORKFLOW_SHARED: &[Source] =
    &[file!("lib/workflow.sh", "actana_workflow_editor/workflow.sh")];

/// The skills, and the parts that each is made of.
const SOURCES: [(&str, &[&[Source]]); 3] = [
    ("actana_tables", &[TABLES, SHARED]),
    ("actana_files", &[FILES, SHARED]),
    ("actana_workflow_editor", &[WORKFLOW_EDITOR, WORKFLOW_SHARED, SHARED]),
];

/// The ids of all of them, which the default Assistant has.
pub(crate) const BUILT_IN: [&str; 3] = [SOURCES[0].0, SOURCES[1].0, SOURCES[2].0];

/// Whether a skill of ours has this id.
pub(crate) fn is_built_in(id: &str) -> bool {
    BUILT_IN.contains(&id)
}

/// All of them. A failure to pack them is one of the disk, and is not kept:
/// the next to ask tries again.
pub(super) fn all() -> Result<&'static [BuiltIn], BundleError> {
    static PACKED: OnceLock<Vec<BuiltIn>> = OnceLock::new();
    if let Some(skills) = PACKED.get() {
        return Ok(skills);
    }
    let skills = SOURCES.iter().map(|(id, parts)| packed(id, parts));
    let skills = skills.collect::<Result<Vec<BuiltIn>, BundleError>>()?;
    Ok(PACKED.get_or_init(|| skills))
}

fn packed(id: &str, parts: &[&[Source]]) -> Result<BuiltIn, BundleError> {
    let mut folder = Folder { spool: tempfile::tempfile()?, entries: Vec::new() };
    for (path, content) in parts.iter().copied().flatten() {
        let begins = folder.spool.stream_position()?;
        folder.spool.write_all(content.as_bytes())?;
        let size = content.len() as u64;
        folder.entries.push(Entry { path: (*path).to_owned(), begins, size });
    }
    let Bundle { mut zip, version, description, files, .. } = bundle::pack(folder)?;
    let mut bytes = Vec::new();
    zip.read_to_end(&mut bytes)?;
    Ok(BuiltIn {
        id: SkillId::parse(id)?,
        version,
        description: description.unwrap_or_default(),
        files,
        zip: bytes.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::{SOURCES, all, packed};

    #[test]
    fn the_skills_of_ours_are_packed_the_same_each_time() {
        let skills = all().unwrap();
        assert_eq!(skills.len(), 3);
        for (skill, (id, parts)) in skills.iter().zip(SOURCES) {
            assert_eq!(skill.id.as_str(), id);
            assert!(!skill.description.is_empty());
            assert_eq!(packed(id, parts).unwrap().version, skill.version);
        }
    }
}
