//! A directory that is watched, and what its events add up to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;
use watch::{Event, Kind, Note, Options, Told, Watcher};

/// Longest wait for an event. The machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Scene {
    directory: TempDir,
    watcher: Option<Watcher>,
    told: Receiver<Told>,
    /// What there was at the start, changed by all that was told since.
    pub(crate) files: BTreeSet<PathBuf>,
    pub(crate) events: Vec<Event>,
    pub(crate) notes: Vec<Note>,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::with(|_| {}, |_| {})
    }

    /// A directory with something in it, watched in some way.
    pub(crate) fn with(prepare: impl FnOnce(&Path), change: impl FnOnce(&mut Options)) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let files = listing(directory.path());
        let mut options = Options::of(directory.path());
        change(&mut options);
        let (tell, told) = channel();
        let watcher = Watcher::start(options, move |told| tell.send(told).unwrap()).unwrap();
        let (events, notes) = (Vec::new(), Vec::new());
        Scene { directory, watcher: Some(watcher), told, files, events, notes }
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Waits until this was told, and folds everything before it.
    #[track_caller]
    pub(crate) fn wait(&mut self, kind: Kind, path: &str) {
        let wanted = Event { kind, path: path.into() };
        loop {
            let told = self.told.recv_timeout(PATIENCE);
            match told.unwrap_or_else(|_| panic!("{wanted:?} was not told: {:?}", self.events)) {
                Told::File(event) if event == wanted => {
                    self.fold(event);
                    return;
                }
                Told::File(event) => self.fold(event),
                Told::Note(note) => self.notes.push(note),
            }
        }
    }

    /// Waits until the fold is the file system, while nothing else happens.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        let there = listing(self.root());
        while self.files != there {
            match self.told.recv_timeout(PATIENCE) {
                Ok(Told::File(event)) => self.fold(event),
                Ok(Told::Note(note)) => self.notes.push(note),
                Err(_) => {
                    let missing: Vec<_> = there.symmetric_difference(&self.files).collect();
                    panic!("these were not told: {missing:?}");
                }
            }
        }
    }

    /// Ends it, and holds the fold against the file system.
    #[track_caller]
    pub(crate) fn finish(&mut self) {
        self.end();
        let there = listing(self.root());
        let missing: Vec<_> = there.difference(&self.files).take(5).collect();
        let too_many: Vec<_> = self.files.difference(&there).take(5).collect();
        assert!(missing.is_empty() && too_many.is_empty(), "-{missing:?} +{too_many:?}");
    }

    /// Ends it, whatever is there.
    #[track_caller]
    pub(crate) fn end(&mut self) {
        self.watcher.take().unwrap().finish();
        while let Ok(told) = self.told.try_recv() {
            match told {
                Told::File(event) => self.fold(event),
                Told::Note(note) => self.notes.push(note),
            }
        }
    }

    /// Everything that was told of one path.
    pub(crate) fn of(&self, path: &str) -> Vec<Kind> {
        let of_path = self.events.iter().filter(|event| event.path == Path::new(path));
        of_path.map(|event| event.kind).collect()
    }

    /// What was told of one path, without changes: a file may be seen before or
    /// after its first content is in it.
    pub(crate) fn comings_and_goings(&self, path: &str) -> Vec<Kind> {
        self.of(path).into_iter().filter(|kind| *kind != Kind::Change).collect()
    }

    /// A fold takes nothing that does not follow from what came before.
    #[track_caller]
    fn fold(&mut self, event: Event) {
        let follows = match event.kind {
            Kind::Create => self.files.insert(event.path.clone()),
            Kind::Change => self.files.contains(&event.path),
            Kind::Delete => self.files.remove(&event.path),
        };
        assert!(follows, "{event:?} does not follow");
        self.events.push(event);
    }
}

/// The files and links below a directory, without what is left out.
pub(crate) fn listing(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if [".git", "node_modules"].iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() || kind.is_symlink() {
                found.insert(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    found
}
