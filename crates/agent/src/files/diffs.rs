//! What changed in each file, while the agent works: a few times a second, of
//! all files that changed since. The last state of a file is always among them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::run::Level;

use super::baseline::{Baseline, Differences};
use super::halves::Refused;
use super::tell_diff;
use crate::emit::Emitter;

/// How long changes are gathered before they are compared.
const GATHER: Duration = Duration::from_millis(300);
/// Longest time for what is left at the end.
const LAST: Duration = Duration::from_secs(60);
/// Most files that are compared by one call, and most bytes of their names.
const FILES: usize = 200;
const NAMES_BYTES: usize = 100_000;
/// Most bytes of the difference of one file as JSON.
const DIFF_BYTES: usize = 64 << 10;

/// Most files that it is said of that they cannot be compared.
const WARNINGS: usize = 16;

/// Most bytes of the names that wait to be compared.
const WAITING_BYTES: usize = 32 << 20;

/// A task that compares.
pub(super) struct Diffs(JoinSet<()>);

/// Where changes are told; dropped when there are no more.
pub(super) struct Changed {
    waiting: Arc<Mutex<Waiting>>,
    /// Holds one: that there is something to take is worth saying once.
    wake: Sender<()>,
}

/// Files that changed and are not compared yet, each of them once.
#[derive(Default)]
struct Waiting {
    paths: BTreeSet<PathBuf>,
    bytes: usize,
    /// Whether there were too many.
    lost: bool,
}

impl Diffs {
    /// Compares what is told from now on, until who tells it is dropped.
    pub(super) fn begin(baseline: Arc<Baseline>, out: Emitter) -> (Diffs, Changed) {
        let (wake, woken) = channel(1);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let mut task = JoinSet::new();
        task.spawn(follow(baseline, Arc::clone(&waiting), woken, out));
        (Diffs(task), Changed { waiting, wake })
    }

    /// Waits for what is left. Who tells has to be dropped.
    pub(super) async fn finish(mut self, out: &Emitter) {
        if timeout(LAST, self.0.join_next()).await.is_err() {
            out.log(Level::Warn, "not all of `sandbox.file.diff` was told in time");
        }
    }
}

impl Changed {
    /// A file is not what it was.
    pub(super) fn tell(&self, path: PathBuf) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).add(path);
        // Full, it says so already; closed, nobody compares any more.
        let _ = self.wake.try_send(());
    }
}

impl Waiting {
    fn add(&mut self, path: PathBuf) {
        // What a set needs for each is about this.
        let bytes = path.as_os_str().len() + 64;
        if self.bytes + bytes > WAITING_BYTES {
            self.lost |= !self.paths.contains(&path);
        } else if self.paths.insert(path) {
            self.bytes += bytes;
        }
    }
}

async fn follow(
    baseline: Arc<Baseline>,
    waiting: Arc<Mutex<Waiting>>,
    mut woken: Receiver<()>,
    out: Emitter,
) {
    let mut warned = false;
    let mut warned_of = BTreeSet::new();
    while woken.recv().await.is_some() {
        let gathering = async { while woken.recv().await.is_some() {} };
        // It ends early when nothing more comes.
        let _ = timeout(GATHER, gathering).await;
        let Waiting { paths, lost, .. } =
            std::mem::take(&mut *waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if lost && !warned {
            warned = true;
            out.log(Level::Warn, "some of `sandbox.file.diff` is not told: too many files change");
        }
        for batch in batches(paths) {
            match baseline.differences(&batch, DIFF_BYTES).await {
                Ok(Differences { found, refused }) => {
                    found.iter().for_each(|(path, text)| tell_diff(&out, path, text));
                    for Refused { path, why } in refused {
                        if warned_of.len() < WARNINGS && warned_of.insert(path.clone()) {
                            let path = path.display();
                            let text =
                                format!("`sandbox.file.diff` of `{path}` is not told: {why}");
                            out.log(Level::Warn, text);
                        }
                    }
                }
                Err(err) if !warned => {
                    warned = true;
                    out.log(Level::Warn, format!("some of `sandbox.file.diff` is not told: {err}"));
                }
                Err(_) => {}
            }
        }
    }
}

fn batches(paths: BTreeSet<PathBuf>) -> Vec<Vec<PathBuf>> {
    let mut batches = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for path in paths {
        bytes += path.as_os_str().len() + 1;
        batch.push(path);
        if batch.len() == FILES || bytes > NAMES_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
    }
    batches.extend((!batch.is_empty()).then_some(batch));
    batches
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{WAITING_BYTES, Waiting};

    #[test]
    fn what_waits_is_bounded_and_each_file_waits_once() {
        let mut waiting = Waiting::default();
        for _ in 0..1000 {
            waiting.add(PathBuf::from("same"));
        }
        assert_eq!((waiting.paths.len(), waiting.lost), (1, false));
        for number in 0..20_000 {
            waiting.add(PathBuf::from(format!("{}{number}", "d/".repeat(2000))));
        }
        assert!(waiting.lost && waiting.bytes <= WAITING_BYTES);
        assert!(waiting.paths.len() < 10_000);
    }
}
