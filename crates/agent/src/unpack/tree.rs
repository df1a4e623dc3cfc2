//! What the entries of a zip would make together. Two of them on one path, or
//! on paths that a careless file system takes for one, hide one another: what
//! was looked at is then not what is used.

use std::collections::BTreeMap;

use super::Reason;

/// The files and directories so far, by their names in small letters.
#[derive(Debug, Default)]
pub(super) struct Tree {
    seen: BTreeMap<String, Node>,
}

#[derive(Debug)]
struct Node {
    /// As it is really written.
    path: String,
    is_directory: bool,
}

impl Tree {
    /// Adds a checked path and the directories above it.
    pub(super) fn add(&mut self, path: &str, is_directory: bool) -> Result<(), Reason> {
        for (end, _) in path.match_indices('/') {
            self.put(&path[..end], true)?;
        }
        self.put(path, is_directory)
    }

    fn put(&mut self, path: &str, is_directory: bool) -> Result<(), Reason> {
        let Some(node) = self.seen.get(&path.to_lowercase()) else {
            let node = Node { path: path.to_owned(), is_directory };
            self.seen.insert(path.to_lowercase(), node);
            return Ok(());
        };
        match (node.is_directory, is_directory) {
            _ if node.path != path => Err(Reason::CaseOnly(node.path.clone())),
            // A directory may be named as often as it has files.
            (true, true) => Ok(()),
            (false, false) => Err(Reason::Twice),
            (true, false) | (false, true) => Err(Reason::FileAndDirectory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Reason, Tree};

    #[track_caller]
    fn check(paths: &[&str], expected: Result<(), Reason>) {
        let mut tree = Tree::default();
        let added = paths
            .iter()
            .try_for_each(|path| tree.add(path.trim_end_matches('/'), path.ends_with('/')));
        assert_eq!(added, expected, "{paths:?}");
    }

    #[test]
    fn no_entry_hides_another() {
        check(&["a", "b", "c/a", "c/b", "c/", "c/d/"], Ok(()));
        check(&["c/", "c/", "c/a"], Ok(()));
        check(&["a", "a"], Err(Reason::Twice));
        check(&["a", "A"], Err(Reason::CaseOnly("a".into())));
        check(&["dir/a", "Dir/b"], Err(Reason::CaseOnly("dir".into())));
        check(&["Straße", "straße"], Err(Reason::CaseOnly("Straße".into())));
        check(&["a", "a/b"], Err(Reason::FileAndDirectory));
        check(&["a/b", "a"], Err(Reason::FileAndDirectory));
        check(&["a", "a/"], Err(Reason::FileAndDirectory));
    }
}
