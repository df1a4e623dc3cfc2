//! One tree that is watched: what the kernel says of it, and looks through it.
//!
//! A directory is watched before it is looked through, so that what comes into
//! it meanwhile is seen by one or by both. What the kernel says is taken in its
//! order, though the file system may be further on already: a file that came
//! and went is told to have come and gone. Whatever is told twice is passed
//! over by the book.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::inotify::ReadFlags;
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::book::{Book, Extent, Note, Told};
use crate::eye::{Eye, Seen, Watched};
use crate::look::{Looked, State, inode, look, look_at};
use crate::watcher::Options;

/// Entries that one look takes in at most, as a multiple of the files that may
/// be known.
const ENTRIES_PER_FILE: usize = 4;
/// How often the kernel is listened to before anything else is looked at.
const READS_AT_ONCE: usize = 16;

/// A tree that is watched.
pub(crate) struct Tree {
    options: Options,
    book: Book,
    /// `None` when there are no watches to be had.
    eye: Option<Eye>,
    /// The inode that was last found at the root.
    root: Option<u64>,
}

/// What a look through a directory found.
struct Found {
    files: BTreeMap<PathBuf, State>,
    directories: BTreeSet<PathBuf>,
    extent: Extent,
    /// Entries that may still be taken in.
    left: usize,
    /// Files that may still become known.
    room: usize,
}

impl Tree {
    /// Watches a tree and takes what is there as known.
    pub(crate) fn begin(options: Options, tell: Box<dyn FnMut(Told) + Send>) -> Tree {
        let mut book = Book::new(options.most_files, tell);
        let eye = Eye::new(options.most_watches).ok();
        if eye.is_none() {
            book.note(Note::NoWatches);
        }
        let mut tree = Tree { options, book, eye, root: None };
        let found = tree.find(Path::new(""));
        tree.book.begin(found.files);
        tree
    }

    /// What to wait for.
    pub(crate) fn eye(&self) -> Option<&Eye> {
        self.eye.as_ref()
    }

    /// Whether only a look can show what happens: there are no watches, or they
    /// are on a directory that has made way for another. Nobody tells of that
    /// as long as a process stays in the old one.
    pub(crate) fn needs_looking(&self) -> bool {
        match &self.eye {
            None => true,
            Some(eye) => !eye.watches(Path::new("")) || inode(&self.options.root) != self.root,
        }
    }

    pub(crate) fn tell_due(&mut self, now: Instant) {
        self.book.tell_due(now);
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.book.next_due()
    }

    /// Tells what is left, and lets go of whoever was told. The eye is still open.
    pub(crate) fn end(mut self) -> Option<Eye> {
        self.book.end();
        self.eye
    }

    /// Takes what the kernel has to say for now, up to a bound: there is an end
    /// to be heard of as well.
    pub(crate) fn follow(&mut self) {
        for _ in 0..READS_AT_ONCE {
            if !self.follow_once() {
                if let Some(eye) = &mut self.eye {
                    eye.release_detached();
                }
                return;
            }
        }
    }

    /// Takes what one read returns; says whether there was anything.
    pub(crate) fn follow_once(&mut self) -> bool {
        let Some(eye) = &self.eye else { return false };
        let seen = eye.read();
        let overflowed = seen.iter().any(|seen| seen.flags.contains(ReadFlags::QUEUE_OVERFLOW));
        let any = !seen.is_empty();
        for seen in seen {
            let now = Instant::now();
            self.book.tell_due(now);
            self.take(seen, now);
        }
        if overflowed {
            self.look_through(Path::new(""));
        }
        any
    }

    /// Looks through a directory and tells what is different from what is known.
    pub(crate) fn look_through(&mut self, directory: &Path) {
        let found = self.find(directory);
        if let Some(eye) = &mut self.eye {
            for path in eye.below(directory) {
                if !found.directories.contains(&path) && found.extent == Extent::Whole {
                    eye.detach(&path);
                }
            }
        }
        let root = &self.options.root;
        let still_there = |path: &Path| matches!(look(&root.join(path)), Looked::File(_));
        let now = Instant::now();
        self.book.reconcile(directory, found.files, found.extent, still_there, now);
    }

    fn take(&mut self, seen: Seen, now: Instant) {
        let Seen { watch, flags, name } = seen;
        let Some(eye) = &mut self.eye else { return };
        if flags.contains(ReadFlags::IGNORED) {
            eye.forget(watch);
            return;
        }
        let Some(directory) = eye.path(watch) else { return };
        if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) {
            // Of all others their parent tells.
            if directory.as_os_str().is_empty() {
                self.look_through(Path::new(""));
            }
            return;
        }
        if name.is_empty() || self.options.leave_out.contains(&name) {
            return;
        }
        let path = directory.join(&name);
        let came = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let went = flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
        if flags.contains(ReadFlags::ISDIR) {
            if came {
                self.directory_came(&path);
            } else if went {
                for path in eye.below(&path) {
                    eye.detach(&path);
                }
                self.book.gone_below(&path);
                self.look_after(&path, now);
            }
            return;
        }
        if went {
            self.book.gone(&path);
            self.look_after(&path, now);
            return;
        }
        match look(&self.options.root.join(&path)) {
            Looked::File(state) => self.book.present(&path, state, now),
            Looked::Nothing if came => self.book.came_and_went(&path),
            Looked::Nothing if flags.contains(ReadFlags::MODIFY) => {
                self.book.written_and_gone(&path, now);
            }
            // It took the place of a file, if there was one.
            Looked::Other => self.book.gone(&path),
            // What it has become has its own say.
            Looked::Nothing | Looked::Directory => {}
        }
    }

    /// Looks at a path that something went from. Of two that change places the
    /// kernel says that the second one went after it said what came there, and
    /// does not say it again.
    fn look_after(&mut self, path: &Path, now: Instant) {
        match look(&self.options.root.join(path)) {
            Looked::File(state) => self.book.present(path, state, now),
            Looked::Directory => self.directory_came(path),
            Looked::Other | Looked::Nothing => {}
        }
    }

    fn directory_came(&mut self, path: &Path) {
        let Some(eye) = &mut self.eye else { return };
        match eye.watch(&self.options.root, path) {
            // It was looked through when it was first watched.
            Watched::Already | Watched::NotThere => {}
            Watched::Anew | Watched::TooDeep | Watched::NoMore => self.look_through(path),
        }
    }

    /// Looks through a directory, and watches it and all directories in it.
    fn find(&mut self, directory: &Path) -> Found {
        let mut found = Found {
            files: BTreeMap::new(),
            directories: BTreeSet::new(),
            extent: Extent::Whole,
            left: self.options.most_files.saturating_mul(ENTRIES_PER_FILE),
            room: self.book.room(),
        };
        if directory.as_os_str().is_empty() {
            self.root = inode(&self.options.root);
        }
        let mut waiting = vec![directory.to_owned()];
        while let Some(path) = waiting.pop() {
            self.watch(&path);
            match self.list(&path, &mut found, &mut waiting) {
                Ok(()) => {}
                Err(Errno::NAMETOOLONG) => self.book.note(Note::TooDeep),
                // Gone, no directory any more, or not ours to read.
                Err(_) => continue,
            }
            found.directories.insert(path);
            if found.left == 0 {
                found.extent = Extent::Part;
                self.book.note(Note::TooManyFiles(self.options.most_files));
                break;
            }
        }
        found
    }

    fn watch(&mut self, path: &Path) {
        let Some(eye) = &mut self.eye else { return };
        match eye.watch(&self.options.root, path) {
            Watched::Anew | Watched::Already | Watched::NotThere => {}
            Watched::TooDeep => self.book.note(Note::TooDeep),
            Watched::NoMore => {
                // Half a tree that is watched would be worse than none.
                self.eye = None;
                self.book.note(Note::NoWatches);
            }
        }
    }

    fn list(
        &mut self,
        path: &Path,
        found: &mut Found,
        waiting: &mut Vec<PathBuf>,
    ) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(CWD, self.options.root.join(path), flags, Mode::empty())?;
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || self.options.leave_out.contains(name) {
                continue;
            }
            let Some(left) = found.left.checked_sub(1) else { return Ok(()) };
            found.left = left;
            match look_at(&opened, entry.file_name()) {
                Looked::File(state) => self.found_file(path.join(name), state, found),
                Looked::Directory => waiting.push(path.join(name)),
                Looked::Other | Looked::Nothing => {}
            }
        }
        Ok(())
    }

    /// Files beyond those that can be known are left where they are.
    fn found_file(&mut self, path: PathBuf, state: State, found: &mut Found) {
        if !self.book.knows(&path) {
            let Some(room) = found.room.checked_sub(1) else {
                self.book.note(Note::TooManyFiles(self.options.most_files));
                return;
            };
            found.room = room;
        }
        found.files.insert(path, state);
    }
}

#[cfg(test)]
mod tests;
