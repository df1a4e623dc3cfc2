//! The thread that watches, from its start to its end.
//!
//! ```text
//! first look ──► events of the kernel, in their order ──► the rest of them ──► last look
//!                      └─ queue overflowed, root replaced: a look through all
//! ```
//!
//! A thread of its own, because whoever is told may block for as long as it
//! likes; the kernel's queue then overflows, and the tree is looked through
//! instead. No runtime is needed, so that any program can watch.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;

use crate::book::Told;
use crate::tree::Tree;

/// How often a tree is looked through that cannot be watched, and how often it
/// is asked whether it can.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long the end waits for a kernel that never stops talking.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What to watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory.
    pub root: PathBuf,
    /// Names that are passed over wherever they are, with all that is below them.
    pub leave_out: BTreeSet<OsString>,
    /// Most files that are known at a time.
    pub most_files: usize,
    /// Most directories that are watched; with more, the tree is looked through
    /// from time to time.
    pub most_watches: usize,
}

/// A directory that is watched. Dropping it is finishing it.
#[derive(Debug)]
pub struct Watcher {
    stop: Arc<OwnedFd>,
    /// Hangs up when all has been told.
    done: Receiver<()>,
}

/// Who woke the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    End,
    Kernel,
    Clock,
}

impl Options {
    /// Everything below a directory, but what version control and package
    /// managers keep for themselves.
    pub fn of(root: impl Into<PathBuf>) -> Options {
        Options {
            root: root.into(),
            leave_out: [".git", "node_modules"].map(OsString::from).into(),
            most_files: 200_000,
            most_watches: 100_000,
        }
    }
}

impl Watcher {
    /// Looks through the directory once and tells, from then on, what happens
    /// in it. When this returns, nothing that happens is missed any more.
    pub fn start(options: Options, tell: impl FnMut(Told) + Send + 'static) -> io::Result<Watcher> {
        let options = Options { root: options.root.canonicalize()?, ..options };
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (ready, done) = sync_channel(1);
        let stopped = Arc::clone(&stop);
        let tell = Box::new(tell);
        std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            let mut tree = Tree::begin(options, tell);
            // Whoever started us waits for this, and then for the channel's end.
            let _ = ready.send(());
            run(&mut tree, &stopped);
            let eye = tree.end();
            drop(ready);
            // Closing it takes the kernel some 10 ms, which nobody has to wait for.
            drop(eye);
        })?;
        done.recv().map_err(|_| io::Error::other("the watching thread ended"))?;
        Ok(Watcher { stop, done })
    }

    /// Ends the watching after a last look: once this returns, all that
    /// happened before it was called has been told, and whoever was told has
    /// been dropped. It blocks for that long.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The counter of an eventfd takes one more for as long as anybody lives.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        // Nothing more is sent: this returns when the other end is dropped.
        let _ = self.done.recv();
    }
}

fn run(tree: &mut Tree, stop: &OwnedFd) {
    let mut look_at = Instant::now() + LOOK_EVERY;
    loop {
        tree.tell_due(Instant::now());
        let until = tree.next_due().map_or(look_at, |due| due.min(look_at));
        match wait(tree, stop, until) {
            Woken::End => break,
            Woken::Kernel => tree.follow(),
            Woken::Clock => {}
        }
        let began = Instant::now();
        if look_at > began {
            continue;
        }
        if tree.needs_looking() {
            tree.look_through(Path::new(""));
        }
        // A large tree is not looked through all the time.
        look_at = Instant::now() + LOOK_EVERY.max(began.elapsed() * 2);
    }
    let began = Instant::now();
    while tree.follow_once() && began.elapsed() < LAST_WORDS {}
    tree.look_through(Path::new(""));
}

fn wait(tree: &Tree, stop: &OwnedFd, until: Instant) -> Woken {
    let mut waited = vec![PollFd::new(stop, PollFlags::IN)];
    waited.extend(tree.eye().map(|eye| PollFd::new(eye, PollFlags::IN)));
    let left = until.saturating_duration_since(Instant::now());
    // A wait that cannot be said is longer than anybody waits.
    let left = Timespec::try_from(left).ok();
    if poll(&mut waited, left.as_ref()).is_err() {
        return Woken::Clock;
    }
    let ready = |place: usize| waited.get(place).is_some_and(|fd| !fd.revents().is_empty());
    match (ready(0), ready(1)) {
        (true, _) => Woken::End,
        (false, true) => Woken::Kernel,
        (false, false) => Woken::Clock,
    }
}
