//! What is written down beside a template's files: `template.json`.
//!
//! It is written last, so a directory that has one is complete.

use std::{collections::BTreeMap, fs, io, path::Path};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

const FILE: &str = "template.json";

/// What a sandbox made from a template starts with, unless its caller says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defaults {
    /// Whose commands they are.
    pub user: String,
    /// Where they start.
    pub workdir: String,
    /// Variables they start with.
    pub envs: BTreeMap<String, String>,
    /// What is started with the sandbox.
    pub start_command: Option<String>,
}

/// Where a template came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// Made from this host's own files: for development, not for strangers.
    Dev,
    /// An operator brought it.
    Imported,
    /// Another template, and the programs of a harness over it.
    Harness,
}

/// What a template lays over another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addition {
    /// The harness whose programs these are.
    pub harness: String,
    /// Of which release.
    pub version: String,
    /// The template below, by its own name. Its layers are looked up anew for
    /// each sandbox, so that a `dev` that changed with its host is used as it is.
    pub base: String,
    /// Memory that sandboxes with these programs may use.
    pub memory_mib: u32,
}

/// The facts of one template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) label: Label,
    pub(super) size_bytes: u64,
    pub(super) created_at: DateTime<Utc>,
    pub(super) defaults: Defaults,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) addition: Option<Addition>,
}

impl Record {
    /// A record of files that were written just now.
    pub(super) fn new(label: Label, size_bytes: u64, defaults: Defaults) -> Record {
        Record { label, size_bytes, created_at: Utc::now(), defaults, addition: None }
    }

    /// A record of files over another template.
    pub(super) fn of_addition(addition: Addition, size_bytes: u64, defaults: Defaults) -> Record {
        let addition = Some(addition);
        Record { addition, ..Record::new(Label::Harness, size_bytes, defaults) }
    }

    /// Whether the template in `directory` is complete.
    pub(super) fn is_in(directory: &Path) -> bool {
        directory.join(FILE).is_file()
    }

    pub(super) fn read(directory: &Path) -> io::Result<Record> {
        let text = fs::read(directory.join(FILE))?;
        Ok(serde_json::from_slice(&text)?)
    }

    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(FILE), serde_json::to_vec_pretty(self)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Defaults, Label, Record};

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_damaged_one_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!Record::is_in(directory.path()));
        let defaults = Defaults {
            user: "user".to_owned(),
            workdir: "/home/user".to_owned(),
            envs: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
            start_command: None,
        };
        let record = Record::new(Label::Imported, 7, defaults);
        record.write(directory.path()).unwrap();
        assert!(Record::is_in(directory.path()));
        assert_eq!(Record::read(directory.path()).unwrap(), record);
        std::fs::write(directory.path().join(super::FILE), "{").unwrap();
        assert!(Record::read(directory.path()).is_err());
    }
}
