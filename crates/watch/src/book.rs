//! Which files are known, and what was told of them.
//!
//! ```text
//! unknown ── create ──► known ── change ──► known ── delete ──► unknown
//! ```
//!
//! Nothing else is ever told, so that folding what was told gives what is known.
//! A change that follows another of its path within 50 ms is held back: it is
//! told when they are over, before anything else about the path, or at the end.
//! There is no clock here: callers say what time it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::look::State;

/// Changes of one path that are closer than this are told as one.
pub const MERGED_WITHIN: Duration = Duration::from_millis(50);

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// To a file.
    File(Event),
    /// To the watching itself.
    Note(Note),
}

/// What happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// How it is different.
    pub kind: Kind,
    /// Where it is, relative to the directory that is watched.
    pub path: PathBuf,
}

/// How a file is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is new.
    Create,
    /// It has another size, time or inode.
    Change,
    /// It is gone.
    Delete,
}

/// What a reader of events has to know about them. Each is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// There are more files than this; new ones are no longer told.
    TooManyFiles(usize),
    /// Some paths are longer than the system can name; they are not told.
    TooDeep,
    /// The system has no more watches. The tree is looked through from time to
    /// time, so what comes and goes between is not told.
    NoWatches,
}

/// The files that are known.
pub(crate) struct Book {
    files: BTreeMap<PathBuf, Known>,
    /// When changes that are held back are to be told.
    due: BTreeSet<(Instant, PathBuf)>,
    most_files: usize,
    noted: BTreeSet<Note>,
    tell: Box<dyn FnMut(Told) + Send>,
}

struct Known {
    /// `None` for a file that was gone before it was looked at.
    state: Option<State>,
    /// Until when changes of it are held back.
    quiet_until: Option<Instant>,
    /// Whether one is.
    held: bool,
}

/// Whether a tree was looked through to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Part,
}

impl Book {
    pub(crate) fn new(most_files: usize, tell: Box<dyn FnMut(Told) + Send>) -> Book {
        let (files, due, noted) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Book { files, due, most_files, noted, tell }
    }

    /// Takes what was there before anybody watched, and tells nobody.
    pub(crate) fn begin(&mut self, found: BTreeMap<PathBuf, State>) {
        let known = |state| Known { state: Some(state), quiet_until: None, held: false };
        self.files = found.into_iter().map(|(path, state)| (path, known(state))).collect();
    }

    /// Whether one more path can be known.
    pub(crate) fn room(&self) -> usize {
        self.most_files.saturating_sub(self.files.len())
    }

    pub(crate) fn knows(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// A file is there, in this state.
    pub(crate) fn present(&mut self, path: &Path, state: State, now: Instant) {
        match self.files.get_mut(path) {
            None => self.create(path, Some(state)),
            Some(known) if known.state == Some(state) => {}
            Some(known) => {
                known.state = Some(state);
                self.change(path, now);
            }
        }
    }

    /// A file came and was gone before it could be looked at.
    pub(crate) fn came_and_went(&mut self, path: &Path) {
        if !self.knows(path) {
            self.create(path, None);
        }
    }

    /// A file was written to and gone before it could be looked at.
    pub(crate) fn written_and_gone(&mut self, path: &Path, now: Instant) {
        if self.knows(path) {
            self.change(path, now);
        }
    }

    /// A file is gone.
    pub(crate) fn gone(&mut self, path: &Path) {
        let Some(known) = self.files.remove(path) else { return };
        if let (true, Some(until)) = (known.held, known.quiet_until) {
            self.due.remove(&(until, path.to_owned()));
            self.tell_file(Kind::Change, path);
        }
        self.tell_file(Kind::Delete, path);
    }

    /// Everything at and below a path is gone.
    pub(crate) fn gone_below(&mut self, directory: &Path) {
        for path in self.below(directory) {
            self.gone(&path);
        }
    }

    /// A whole directory was looked through, and this is what was there. Of a
    /// part of one, `still_there` is asked about each known file that is not
    /// among what was found.
    pub(crate) fn reconcile(
        &mut self,
        directory: &Path,
        found: BTreeMap<PathBuf, State>,
        extent: Extent,
        still_there: impl Fn(&Path) -> bool,
        now: Instant,
    ) {
        for path in self.below(directory) {
            let missing = !found.contains_key(&path);
            if missing && (extent == Extent::Whole || !still_there(&path)) {
                self.gone(&path);
            }
        }
        for (path, state) in found {
            self.present(&path, state, now);
        }
    }

    /// Tells what was held back long enough.
    pub(crate) fn tell_due(&mut self, now: Instant) {
        while let Some((due, path)) = self.due.first() {
            if *due > now {
                return;
            }
            let (due, path) = (*due, path.clone());
            self.due.remove(&(due, path.clone()));
            if let Some(known) = self.files.get_mut(&path) {
                known.held = false;
                known.quiet_until = Some(now + MERGED_WITHIN);
                self.tell_file(Kind::Change, &path);
            }
        }
    }

    /// When there is something to tell.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Tells all that was held back.
    pub(crate) fn end(&mut self) {
        for (_, path) in std::mem::take(&mut self.due) {
            self.tell_file(Kind::Change, &path);
        }
    }

    /// Tells something about the watching, once.
    pub(crate) fn note(&mut self, note: Note) {
        if self.noted.insert(note) {
            (self.tell)(Told::Note(note));
        }
    }

    fn create(&mut self, path: &Path, state: Option<State>) {
        if self.room() == 0 {
            self.note(Note::TooManyFiles(self.most_files));
            return;
        }
        self.files.insert(path.to_owned(), Known { state, quiet_until: None, held: false });
        self.tell_file(Kind::Create, path);
    }

    fn change(&mut self, path: &Path, now: Instant) {
        let Some(known) = self.files.get_mut(path) else { return };
        match known.quiet_until {
            _ if known.held => {}
            Some(until) if until > now => {
                known.held = true;
                self.due.insert((until, path.to_owned()));
            }
            Some(_) | None => {
                known.quiet_until = Some(now + MERGED_WITHIN);
                self.tell_file(Kind::Change, path);
            }
        }
    }

    /// The known paths at and below a directory. Paths are sorted by their
    /// components, so these lie side by side.
    fn below(&self, directory: &Path) -> Vec<PathBuf> {
        self.files
            .range::<Path, _>((Bound::Included(directory), Bound::Unbounded))
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(directory))
            .cloned()
            .collect()
    }

    fn tell_file(&mut self, kind: Kind, path: &Path) {
        (self.tell)(Told::File(Event { kind, path: path.to_owned() }));
    }
}

#[cfg(test)]
mod tests;
