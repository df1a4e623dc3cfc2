//! Who is told of files that change, beside those who follow the log: an
//! address that the dispatch names, one that the operator names, and the
//! server's own log under the target `mayfly::files`.
//!
//! ```text
//! book ── entries that are written ──► queue ── batches ──► POST {"run_id", "sandbox_id", "events"}
//! ```
//!
//! A hook never holds a run up. Its queue is bounded by count and by bytes, and
//! what does not fit is lost to the hook, never to the log. After the run a hook
//! has a moment for what is left.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::run::{Event, FileChange, RunEvent, custom};

use crate::{
    link::{AddressPolicy, Outbound, OutboundError},
    office::Office,
    run::Run,
};

/// Events that wait for one hook.
const QUEUE: usize = 4096;
/// Bytes that wait for one hook. A diff may have many.
const BYTES: usize = 8 << 20;
/// Events of one request.
const BATCH: usize = 256;
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// How long a hook may take after its run.
const FLUSH: Duration = Duration::from_secs(2);

/// The operator's hook, for every run.
pub(crate) struct ServerHook {
    url: String,
    /// The operator may name any address.
    outbound: Outbound,
}

impl ServerHook {
    pub(crate) fn new(url: String) -> Result<ServerHook, OutboundError> {
        Ok(ServerHook { url, outbound: Outbound::new(AddressPolicy::Any)? })
    }
}

/// The hooks of one run.
#[derive(Default)]
pub(crate) struct Hooks(Vec<Queue>);

impl Hooks {
    /// Opens the hooks that there are.
    pub(crate) fn open(office: &Arc<Office>, run: &Arc<Run>, run_hook: Option<&str>) -> Hooks {
        let of_run = run_hook.map(|url| (url.to_owned(), office.outbound.clone()));
        let of_server = office.file_hook.as_ref();
        let of_server = of_server.map(|hook| (hook.url.clone(), hook.outbound.clone()));
        let hooks = of_run.into_iter().chain(of_server);
        Hooks(hooks.map(|(url, outbound)| Queue::open(office, run, url, outbound)).collect())
    }

    /// Tells of the files in entries that were written. Never waits.
    pub(crate) fn tell(&mut self, run: &Run, entries: &[RunEvent]) {
        for entry in entries {
            let Some(told) = told(entry) else { continue };
            let id = &run.row().id;
            let text = |field: &str| told[field].as_str().unwrap_or_default().escape_debug();
            let (change, path) = (text("type"), text("path"));
            tracing::debug!(target: "mayfly::files", { run.id = %id }, "{change} {path}");
            if !self.0.is_empty() {
                let text = told.to_string();
                self.0.iter_mut().for_each(|queue| queue.push(run, &text));
            }
        }
    }
}

/// What a hook reads of an entry, if it is one for hooks.
fn told(entry: &RunEvent) -> Option<Value> {
    if let Event::File { change, path } = &entry.event {
        let change = match change {
            FileChange::Create => "create",
            FileChange::Change => "change",
            FileChange::Delete => "delete",
        };
        return Some(json!({"type": change, "path": path, "timestamp": entry.ts}));
    }
    if let Event::Custom { name, value: Value::Object(fields) } = &entry.event
        && name == custom::FILE_DIFF
    {
        let mut told = fields.clone();
        told.insert("type".to_owned(), "diff".into());
        told.insert("timestamp".to_owned(), entry.ts.into());
        return Some(Value::Object(told));
    }
    None
}

/// What waits for one hook.
struct Queue {
    events: mpsc::Sender<String>,
    bytes: Arc<AtomicUsize>,
    /// Whether something did not fit.
    lost: bool,
    /// Dropped with the run: the task then has a moment left.
    _over: DropGuard,
}

impl Queue {
    fn open(office: &Office, run: &Arc<Run>, url: String, outbound: Outbound) -> Queue {
        let (events, waiting) = mpsc::channel(QUEUE);
        let bytes = Arc::new(AtomicUsize::new(0));
        let over = CancellationToken::new();
        let hook = Hook { url, outbound, run: Arc::clone(run), bytes: Arc::clone(&bytes) };
        let ended = over.clone();
        office.tasks.spawn(async move {
            tokio::select! {
                () = hook.deliver(waiting) => {}
                () = async { ended.cancelled().await; tokio::time::sleep(FLUSH).await } => {
                    let id = &hook.run.row().id;
                    tracing::warn!(run.id = %id, "a file hook of run {id} did not take everything");
                }
            }
        });
        Queue { events, bytes, lost: false, _over: over.drop_guard() }
    }

    fn push(&mut self, run: &Run, event: &str) {
        let before = self.bytes.fetch_add(event.len(), Ordering::Relaxed);
        let fits = before.saturating_add(event.len()) <= BYTES;
        if fits && self.events.try_send(event.to_owned()).is_ok() {
            return;
        }
        self.bytes.fetch_sub(event.len(), Ordering::Relaxed);
        if !self.lost {
            self.lost = true;
            let id = &run.row().id;
            tracing::warn!(run.id = %id, "a file hook of run {id} is too slow and misses events");
        }
    }
}

/// One hook of one run.
struct Hook {
    url: String,
    outbound: Outbound,
    run: Arc<Run>,
    bytes: Arc<AtomicUsize>,
}

impl Hook {
    /// Sends batches until there will be no more. A batch that fails is lost;
    /// the first one is mentioned.
    async fn deliver(&self, mut waiting: mpsc::Receiver<String>) {
        let row = self.run.row();
        let mut mentioned = false;
        loop {
            let mut batch = Vec::new();
            if waiting.recv_many(&mut batch, BATCH).await == 0 {
                return;
            }
            let length = batch.iter().map(String::len).sum();
            self.bytes.fetch_sub(length, Ordering::Relaxed);
            let head = json!({"run_id": row.id, "sandbox_id": row.sandbox_id});
            let head = head.to_string();
            let head = head.trim_end_matches('}');
            let body = format!("{head},\"events\":[{}]}}", batch.join(","));
            if let Err(problem) = self.outbound.post(&self.url, body, REQUEST).await
                && !mentioned
            {
                mentioned = true;
                let id = &row.id;
                tracing::warn!(run.id = %id, "a file hook of run {id} failed: it {problem}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::run::{Event, FileChange, Level, RunEvent};

    use super::told;

    #[track_caller]
    fn check(event: Event, expected: Option<Value>) {
        assert_eq!(told(&RunEvent { seq: 3, ts: 7, line: None, event }), expected);
    }

    #[test]
    fn hooks_are_told_of_files_and_of_nothing_else() {
        check(
            Event::File { change: FileChange::Delete, path: "a/b".into() },
            Some(json!({"type": "delete", "path": "a/b", "timestamp": 7})),
        );
        let value = json!({"path": "a", "diff": "+x"});
        check(
            Event::Custom { name: "sandbox.file.diff".into(), value },
            Some(json!({"type": "diff", "path": "a", "diff": "+x", "timestamp": 7})),
        );
        check(Event::Custom { name: "file.changed".into(), value: json!({}) }, None);
        check(Event::Custom { name: "sandbox.file.diff".into(), value: json!(1) }, None);
        check(Event::Log { level: Level::Info, message: "m".into() }, None);
    }
}
