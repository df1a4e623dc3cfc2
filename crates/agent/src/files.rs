//! What becomes of the files in the workspace while an agent works: each change
//! as it happens, and the whole difference once the harness has ended.
//!
//! Nothing here fails a run. What cannot be told is a warning.

mod baseline;
mod cut;
mod diffs;
mod disk;
mod git;
mod halves;
mod index;
mod parts;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use watch::{Kind, Note, Options, Told, Watcher};
use wire::agent::FileEvents;
use wire::run::{Event, FileChange, Level, custom};

use self::baseline::Baseline;
use self::cut::Extent;
use self::diffs::{Changed, Diffs};
use self::halves::Refused;
use self::index::NESTED;
use crate::emit::Emitter;
use crate::session::Session;

/// Most bytes of the whole difference as JSON. Its event has a name and a path
/// beside it, and all of it has to stay below the limit of a value.
const CHANGED_BYTES: usize = wire::run::VALUE_LIMIT - (1 << 10);
/// Where the agent keeps what is its own, should its home be the workspace.
const OURS: &str = ".mayfly";

/// The files of a run that goes on.
pub(crate) struct Files {
    watcher: Option<Watcher>,
    diffs: Option<Diffs>,
    baseline: Option<Arc<Baseline>>,
    /// Whether anything was told, if anybody watches.
    touched: Option<Arc<AtomicBool>>,
}

impl Files {
    /// Takes down what is there, and tells what happens to it from now on.
    pub(crate) async fn begin(session: &Session, out: &Emitter) -> Files {
        let baseline = match Baseline::take(&session.workspace_dir, &session.home).await {
            Ok(baseline) => {
                warn_of(baseline.refused(), out);
                Some(Arc::new(baseline))
            }
            Err(err) => {
                out.log(Level::Warn, format!("`file.changed` will not be told: {err}"));
                None
            }
        };
        let mut files = Files { watcher: None, diffs: None, baseline, touched: None };
        match session.file_events {
            FileEvents::Off => {}
            FileEvents::On => files.watch(&session.workspace_dir, None, out).await,
            FileEvents::Diff => {
                let begun = files
                    .baseline
                    .as_ref()
                    .map(|baseline| Diffs::begin(Arc::clone(baseline), out.clone()));
                let (diffs, changed) = begun.unzip();
                files.watch(&session.workspace_dir, changed, out).await;
                files.diffs = diffs;
            }
        }
        files
    }

    /// Tells what is left to tell: the last changes, then the whole difference.
    pub(crate) async fn finish(self, out: &Emitter) {
        if let Some(watcher) = self.watcher {
            // It blocks when nobody reads what the agent says, as all of us do.
            let _ = tokio::task::spawn_blocking(move || watcher.finish()).await;
        }
        if let Some(diffs) = self.diffs {
            diffs.finish(out).await;
        }
        let Some(baseline) = self.baseline else { return };
        let untouched = self.touched.is_some_and(|touched| !touched.load(Ordering::Relaxed));
        if untouched && !baseline.may_differ_from_the_start() {
            return;
        }
        let difference = match baseline.difference(CHANGED_BYTES).await {
            Ok(difference) => difference,
            Err(err) => {
                out.log(Level::Warn, format!("`file.changed` is not told: {err}"));
                return;
            }
        };
        warn_of(&difference.refused, out);
        if difference.extent == Extent::Cut {
            let text = format!(
                "there are more than {NESTED} repositories below the workspace; \
                 `file.changed` leaves out further ones"
            );
            out.log(Level::Warn, text);
        }
        if let Some(text) = difference.text {
            out.custom(custom::TREE_CHANGED, text.value("."));
        }
    }

    async fn watch(&mut self, directory: &Path, changed: Option<Changed>, out: &Emitter) {
        let mut options = Options::of(directory);
        options.leave_out.insert(OsString::from(OURS));
        let touched = Arc::new(AtomicBool::new(false));
        let (told_touched, telling) = (Arc::clone(&touched), out.clone());
        let tell = move |told| match told {
            Told::File(event) => {
                told_touched.store(true, Ordering::Relaxed);
                telling.emit(run_event(&event));
                if let Some(changed) = &changed {
                    changed.tell(event.path);
                }
            }
            Told::Note(note) => {
                // From now on silence does not mean that nothing happened.
                told_touched.store(true, Ordering::Relaxed);
                telling.log(Level::Warn, words(note));
            }
        };
        // It looks through the tree before it returns.
        let started = tokio::task::spawn_blocking(|| Watcher::start(options, tell)).await;
        match started {
            Ok(Ok(watcher)) => {
                self.watcher = Some(watcher);
                self.touched = Some(touched);
            }
            Ok(Err(err)) => out.log(Level::Warn, format!("files are not watched: {err}")),
            Err(err) => out.log(Level::Warn, format!("files are not watched: {err}")),
        }
    }
}

fn warn_of(refused: &[Refused], out: &Emitter) {
    for Refused { path, why } in refused {
        let path = path.display();
        out.log(Level::Warn, format!("`file.changed` leaves out `{path}`: {why}"));
    }
}

fn run_event(event: &watch::Event) -> Event {
    let change = match event.kind {
        Kind::Create => FileChange::Create,
        Kind::Change => FileChange::Change,
        Kind::Delete => FileChange::Delete,
    };
    Event::File { change, path: event.path.to_string_lossy().into_owned() }
}

fn words(note: Note) -> String {
    match note {
        Note::TooManyFiles(most) => {
            format!("there are more than {most} files; changes of further ones are not told")
        }
        Note::TooDeep => "some paths are too long; changes below them are not told".to_owned(),
        Note::NoWatches => "there are no more inotify watches; files are looked through \
                            twice a second, and what comes and goes between is not told"
            .to_owned(),
    }
}

/// The event of one file's difference.
fn tell_diff(out: &Emitter, path: &Path, text: &cut::Text) {
    out.custom(custom::FILE_DIFF, text.value(&path.to_string_lossy()));
}

impl cut::Text {
    fn value(&self, path: &str) -> serde_json::Value {
        match self.extent {
            Extent::Whole => json!({"path": path, "diff": self.text}),
            Extent::Cut => json!({"path": path, "diff": self.text, "truncated": true}),
        }
    }
}

#[cfg(test)]
mod tests;
