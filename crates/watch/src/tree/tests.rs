//! A tree by itself, followed when the test says so: no last look hides what
//! was missed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

use super::Tree;
use crate::book::{Event, Kind, Told};
use crate::watcher::Options;

struct Scene {
    directory: TempDir,
    tree: Tree,
    files: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Scene {
    /// A directory with these files in it.
    fn new(names: &[&str]) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let files = Arc::new(Mutex::new(BTreeSet::new()));
        for name in names {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
            files.lock().unwrap().insert(PathBuf::from(name));
        }
        let folded = Arc::clone(&files);
        let tell = move |told| {
            let Told::File(Event { kind, path }) = told else { return };
            match kind {
                Kind::Create => assert!(folded.lock().unwrap().insert(path)),
                Kind::Delete => assert!(folded.lock().unwrap().remove(&path)),
                Kind::Change => assert!(folded.lock().unwrap().contains(&path)),
            }
        };
        let tree = Tree::begin(Options::of(directory.path()), Box::new(tell));
        Scene { directory, tree, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn exchange(&self, one: &str, other: &str) {
        let (one, other) = (self.path(one), self.path(other));
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }

    #[track_caller]
    fn check(&mut self, expected: &[&str]) {
        self.tree.follow();
        let expected: BTreeSet<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(*self.files.lock().unwrap(), expected);
    }
}

#[test]
fn directories_that_are_exchanged_are_known_and_watched_under_their_new_names() {
    let mut scene = Scene::new(&["p/one", "p/deep/two", "q/three"]);
    scene.exchange("p", "q");
    scene.check(&["p/three", "q/deep/two", "q/one"]);
    for name in ["p/new", "q/new", "q/deep/new"] {
        fs::write(scene.path(name), "1").unwrap();
    }
    scene.check(&["p/new", "p/three", "q/deep/new", "q/deep/two", "q/new", "q/one"]);
}

#[test]
fn files_that_are_exchanged_with_files_or_directories_are_still_known() {
    let mut scene = Scene::new(&["a", "b", "d/in"]);
    scene.exchange("a", "b");
    scene.check(&["a", "b", "d/in"]);
    scene.exchange("a", "d");
    scene.check(&["a/in", "b", "d"]);
    scene.exchange("a", "d");
    scene.check(&["a", "b", "d/in"]);
    fs::write(scene.path("d/new"), "1").unwrap();
    scene.check(&["a", "b", "d/in", "d/new"]);
}

#[test]
fn a_pipe_that_takes_the_place_of_a_file_is_its_end() {
    let mut scene = Scene::new(&["a", "b"]);
    mknodat(CWD, scene.path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::rename(scene.path("pipe"), scene.path("a")).unwrap();
    scene.check(&["b"]);
}
