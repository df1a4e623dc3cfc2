//! The files of a skill on their way in: their paths, checked, and their bytes
//! one behind the other in a file without a name.
//!
//! A path is one that the agent will unpack: relative, with slashes, inside the
//! folder, and no two that a careless file system takes for one.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use super::BundleError;

/// Most files of one skill.
pub(super) const FILES: usize = 2_000;
/// Most bytes of all its files.
pub(super) const BYTES: u64 = 50 << 20;
/// Longest path, and longest part of one, in bytes.
const PATH: usize = 1_024;
const PART: usize = 255;

/// Files and their bytes.
#[derive(Debug)]
pub(super) struct Folder {
    /// The bytes of all files.
    pub(super) spool: File,
    pub(super) entries: Vec<Entry>,
}

/// One file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: String,
    /// Where its bytes are in the spool.
    pub(super) begins: u64,
    pub(super) size: u64,
}

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadPath {
    #[error("is absolute")]
    Absolute,
    #[error("leads out of the folder")]
    Parent,
    #[error("has a backslash")]
    Backslash,
    #[error("is empty, too long or has control characters")]
    Malformed,
    #[error("comes twice")]
    Twice,
    #[error("differs from `{0}` in case only")]
    CaseOnly(String),
    #[error("is a file and a directory at once")]
    FileAndDirectory,
    #[error("is a link or a device")]
    Special,
}

impl Folder {
    /// The bytes of one file.
    pub(super) fn open(&mut self, entry: &Entry) -> io::Result<impl Read> {
        self.spool.seek(SeekFrom::Start(entry.begins))?;
        Ok((&self.spool).take(entry.size))
    }

    /// The files as a skill has them: without what a Mac adds, and with
    /// `SKILL.md` at the top. Also the name of the directory that all of them
    /// were in, if they were.
    pub(super) fn into_skill(mut self) -> Result<(Folder, Option<String>), BundleError> {
        self.entries.retain(|entry| !is_litter(&entry.path));
        let directory = match common_directory(&self.entries) {
            Some(directory) if !self.has_instructions() => Some(directory),
            Some(_) | None => None,
        };
        if let Some(directory) = &directory {
            for entry in &mut self.entries {
                entry.path = entry.path[directory.len() + 1..].to_owned();
            }
        }
        if !self.has_instructions() {
            return Err(BundleError::NoInstructions);
        }
        check_together(&self.entries)?;
        self.entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok((self, directory))
    }

    fn has_instructions(&self) -> bool {
        self.entries.iter().any(|entry| entry.path == super::INSTRUCTIONS)
    }
}

/// Checks the path of one file.
pub(super) fn check_path(path: &str) -> Result<(), BadPath> {
    if path.contains('\\') {
        return Err(BadPath::Backslash);
    }
    if path.starts_with('/') {
        return Err(BadPath::Absolute);
    }
    if path.len() > PATH || path.chars().any(char::is_control) {
        return Err(BadPath::Malformed);
    }
    for part in path.split('/') {
        match part {
            ".." => return Err(BadPath::Parent),
            "" | "." => return Err(BadPath::Malformed),
            part if part.len() > PART => return Err(BadPath::Malformed),
            _ => {}
        }
    }
    Ok(())
}

/// Whether no path hides another.
fn check_together(entries: &[Entry]) -> Result<(), BundleError> {
    // By their names in small letters: as they are written, and whether a file.
    let mut seen: BTreeMap<String, (&str, bool)> = BTreeMap::new();
    for Entry { path, .. } in entries {
        let refuse = |reason| Err(BundleError::Path { path: path.clone(), reason });
        let above = path.match_indices('/').map(|(end, _)| (&path[..end], false));
        for (path, is_file) in above.chain([(path.as_str(), true)]) {
            let (known, known_is_file) =
                *seen.entry(path.to_lowercase()).or_insert((path, is_file));
            match (known_is_file, is_file) {
                _ if known != path => return refuse(BadPath::CaseOnly(known.to_owned())),
                (true, false) | (false, true) => return refuse(BadPath::FileAndDirectory),
                // The file itself was put there just now, unless it was before.
                (true, true) | (false, false) => {}
            }
        }
    }
    let mut paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
    paths.sort_unstable();
    match paths.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(BundleError::Path { path: pair[0].to_owned(), reason: BadPath::Twice }),
        None => Ok(()),
    }
}

/// The directory at the top that everything is in.
fn common_directory(entries: &[Entry]) -> Option<String> {
    let top = |entry: &Entry| entry.path.split_once('/').map(|(top, _)| top.to_owned());
    let first = top(entries.first()?)?;
    entries.iter().all(|entry| top(entry).as_ref() == Some(&first)).then_some(first)
}

/// What a Mac leaves in folders and zips.
fn is_litter(path: &str) -> bool {
    path.starts_with("__MACOSX/") || path.rsplit('/').next() == Some(".DS_Store")
}

#[cfg(test)]
mod tests {
    use super::{BadPath, BundleError, Entry, Folder, check_path};

    #[test]
    fn a_path_stays_inside_or_is_refused() {
        let check = |path: &str, expected| assert_eq!(check_path(path), expected, "{path:?}");
        check("SKILL.md", Ok(()));
        check("recipes/ä b.sh", Ok(()));
        check("..a/b..", Ok(()));
        check("/etc/passwd", Err(BadPath::Absolute));
        check("a\\b", Err(BadPath::Backslash));
        for path in ["..", "../a", "a/../b", "a/.."] {
            check(path, Err(BadPath::Parent));
        }
        for path in ["", ".", "a/./b", "a//b", "a/", "a\0", "a\n", &"a".repeat(256)] {
            check(path, Err(BadPath::Malformed));
        }
    }

    fn skill(paths: &[&str]) -> Result<(Vec<String>, Option<String>), String> {
        let entry = |path: &&str| Entry { path: (*path).to_owned(), begins: 0, size: 0 };
        let entries = paths.iter().map(entry).collect();
        let folder = Folder { spool: tempfile::tempfile().unwrap(), entries };
        match folder.into_skill() {
            Ok((folder, directory)) => {
                Ok((folder.entries.into_iter().map(|entry| entry.path).collect(), directory))
            }
            Err(BundleError::Path { path, reason }) => Err(format!("{path} {reason}")),
            Err(err) => Err(err.to_string()),
        }
    }

    #[test]
    fn instructions_are_at_the_top_or_in_the_one_directory() {
        let check = |paths: &[&str], expected: &[&str], directory: Option<&str>| {
            let (found, stripped) = skill(paths).unwrap();
            assert_eq!(
                (found, stripped.as_deref()),
                (expected.iter().map(|it| (*it).to_owned()).collect(), directory)
            );
        };
        check(&["b", "SKILL.md", "a/c"], &["SKILL.md", "a/c", "b"], None);
        check(&["x/SKILL.md", "x/a/b"], &["SKILL.md", "a/b"], Some("x"));
        check(&["x/SKILL.md", "__MACOSX/x/._SKILL.md", "x/.DS_Store"], &["SKILL.md"], Some("x"));
        for none in [&["a"][..], &["x/SKILL.md", "y"], &["x/y/SKILL.md"], &["skill.md"], &[]] {
            assert!(skill(none).unwrap_err().contains("SKILL.md"), "{none:?}");
        }
    }

    #[test]
    fn no_file_hides_another() {
        let check = |paths: &[&str], reason: &str| {
            assert_eq!(skill(&[&["SKILL.md"], paths].concat()).unwrap_err(), reason);
        };
        check(&["a", "a"], "a comes twice");
        check(&["a", "A"], "A differs from `a` in case only");
        check(&["d/a", "D/b"], "D/b differs from `d` in case only");
        check(&["a", "a/b"], "a/b is a file and a directory at once");
        check(&["a/b", "a"], "a is a file and a directory at once");
    }
}
