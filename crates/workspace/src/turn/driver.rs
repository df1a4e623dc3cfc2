//! One task per turn: dispatches, listens to the runner, writes, ends.
//!
//! ```text
//! dispatch ──► listen ──► settle ──► finish      a stop, a deadline or a hang-up
//!    ▲           │                               of all listeners ends any of the
//!    └─ rejoin ◄─┘ (the stream broke, continue)  first two
//! ```
//!
//! However a turn ends, its message and terminating event are stored, and its
//! session's tokens are good for nothing afterwards.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use store::{FileSource, OnDisconnect, SessionCaller, Shelf, StoreError};
use wire::{agent::Harness, run::ErrorCode, workspace::FileId};

use super::{
    book::{Book, Pending},
    event::{Ending, FileInfo, Files, Opening, TurnEvent},
    live::LiveTurn,
    processor::{Heard, Processor, Said},
    verdict::{Verdict, failed, not_stored, refused, until_stopped},
};
use crate::{
    runner::{DispatchBody, DispatchError, Format, LinesError, Running, Wanted},
    state::Workspace,
    tokens::NewSession,
};

/// Files that are read at once.
const PAGE: u32 = 500;
/// How often a broken stream is taken up again.
const REJOINS: u32 = 8;
/// The pause before the first time; each next one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

/// The one who writes a turn.
pub(super) struct Driver {
    workspace: Workspace,
    live: Arc<LiveTurn>,
    book: Book,
}

/// How a turn's run comes about.
pub(super) enum Beginning {
    /// It is dispatched now.
    Dispatch(Task),
    /// A former server dispatched it.
    Rejoin { run_id: String, processor: Processor },
}

/// What is dispatched.
pub(super) struct Task {
    pub(super) prompt: String,
    pub(super) agent: Option<String>,
    pub(super) template: Option<String>,
    pub(super) harness: Option<Harness>,
}

/// A wait for the end from outside.
type Stopping<'a> = Pin<&'a mut (dyn Future<Output = Verdict> + Send)>;

impl Driver {
    pub(super) fn new(workspace: Workspace, live: Arc<LiveTurn>, book: Book) -> Driver {
        Driver { workspace, live, book }
    }

    /// Drives the turn to its end.
    pub(super) async fn drive(mut self, beginning: Beginning) {
        let mut stopping = Box::pin(until_stopped(
            self.workspace.clone(),
            Arc::clone(&self.live),
            self.book.row().clone(),
        ));
        let verdict = self.work(beginning, stopping.as_mut()).await;
        drop(stopping);
        match verdict {
            Verdict::Over(pending, ending) => self.end(pending, &ending, Run::Ended).await,
            Verdict::End(ending) => self.end(Vec::new(), &ending, Run::MayLive).await,
            Verdict::Leave => self.book.leave(),
        }
    }

    /// Ends the turn without having listened.
    pub(super) async fn give_up(mut self, ending: &Ending) {
        self.end(Vec::new(), ending, Run::MayLive).await;
    }

    async fn end(&mut self, pending: Pending, ending: &Ending, run: Run) {
        // The tokens first: after a crash in between, the turn is still open, and
        // the next server ends it.
        self.book.settle().await;
        self.book.finish(pending, ending).await;
        let Workspace { runner, settings, .. } = &self.workspace;
        let row = self.book.row();
        let id = &row.id;
        // Whoever does not end by our hanging up is told.
        if run == Run::MayLive
            && let (OnDisconnect::Continue, Some(run)) = (row.on_disconnect, &row.run_id)
            && let Err(err) = runner.cancel(&settings.runner, &row.workspace, run).await
        {
            tracing::warn!(turn.id = %id, run.id = run, "run {run} was not cancelled: {err}");
        }
    }

    async fn work(&mut self, beginning: Beginning, mut stopping: Stopping<'_>) -> Verdict {
        if self.book.is_empty()
            && let Err(err) = self.open_book().await
        {
            return Verdict::End(not_stored(&err));
        }
        let (mut running, mut processor) = match beginning {
            Beginning::Dispatch(task) => {
                let running = tokio::select! {
                    biased;
                    verdict = stopping.as_mut() => return verdict,
                    running = self.dispatch(task) => running,
                };
                match running {
                    Ok(running) => {
                        let processor = Processor::new(running.format);
                        (running, processor)
                    }
                    Err(ending) => return Verdict::End(ending),
                }
            }
            Beginning::Rejoin { run_id, processor } => {
                let rejoined = self.rejoin(&run_id, processor.seq(), stopping.as_mut()).await;
                match rejoined {
                    Ok(running) => (running, processor),
                    Err(verdict) => return verdict,
                }
            }
        };
        if let Some(run_id) = &running.run_id
            && self.book.row().run_id.is_none()
        {
            self.book.note_run(run_id).await;
        }
        loop {
            let lines = tokio::select! {
                biased;
                verdict = stopping.as_mut() => return verdict,
                lines = running.lines.next() => lines,
            };
            let why = match lines {
                // What was read is written, whoever wants to stop.
                Ok(Some(lines)) => match self.take(&mut processor, &lines).await {
                    Some(verdict) => return verdict,
                    None => continue,
                },
                Ok(None) => "the sandbox runner's stream ended without a result".to_owned(),
                Err(LinesError::TooLong) => {
                    return Verdict::End(failed(ErrorCode::Internal, LinesError::TooLong));
                }
                Err(err @ (LinesError::Broken(_) | LinesError::MidLine)) => err.to_string(),
            };
            let lost = failed(ErrorCode::SandboxLost, why);
            running = match (self.book.row().on_disconnect, &running) {
                (OnDisconnect::Continue, Running { run_id: Some(id), format: Format::Raw, .. }) => {
                    match self.rejoin(id, processor.seq(), stopping.as_mut()).await {
                        Ok(running) => running,
                        Err(verdict) => return verdict,
                    }
                }
                (OnDisconnect::Continue | OnDisconnect::Cancel, _) => return Verdict::End(lost),
            };
        }
    }

    /// The first event: which turn this is.
    async fn open_book(&mut self) -> Result<(), StoreError> {
        let row = self.book.row();
        let opening = Opening {
            turn_id: row.id.to_string(),
            chat_id: row.chat_id.to_string(),
            user_message_id: row.user_message_id.to_string(),
        };
        self.book.append(vec![(TurnEvent::Turn(opening), None)]).await
    }

    async fn dispatch(&self, task: Task) -> Result<Running, Ending> {
        let row = self.book.row();
        let session = NewSession {
            workspace: row.workspace.clone(),
            caller: SessionCaller::Assistant,
            scope: row.chat_id.to_string(),
            work: row.id.to_string(),
            brief: json!({"agentId": task.agent, "environmentId": null}),
            upload: true,
        };
        let opened = self.workspace.open_session_as(row.session_id.clone(), session).await;
        let opened = opened.map_err(|err| not_stored(&err))?;
        let body = DispatchBody {
            agent_url: opened.agent_url,
            otp_setup: opened.otp_setup,
            otp_run: opened.otp_run,
            otp_upload: opened.otp_upload,
            prompt: task.prompt,
            chat_id: Some(row.chat_id.to_string()),
            template: task.template,
            harness: task.harness,
            on_disconnect: row.on_disconnect,
        };
        let Workspace { runner, settings, .. } = &self.workspace;
        let running = runner.dispatch(&settings.runner, &row.workspace, &body, Wanted::Raw).await;
        running.map_err(|err| {
            tracing::warn!(turn.id = %row.id, cause = ?err, "turn {} was not dispatched", row.id);
            refused(&err)
        })
    }

    /// Takes up a run that goes on without us.
    async fn rejoin(
        &self,
        run_id: &str,
        after: u64,
        mut stopping: Stopping<'_>,
    ) -> Result<Running, Verdict> {
        let Workspace { runner, settings, .. } = &self.workspace;
        let row = self.book.row();
        let mut attempt = 0;
        loop {
            let again = async {
                tokio::time::sleep(PAUSE * 2u32.pow(attempt)).await;
                runner.follow(&settings.runner, &row.workspace, run_id, after).await
            };
            let running = tokio::select! {
                biased;
                verdict = stopping.as_mut() => return Err(verdict),
                running = again => running,
            };
            let err = match running {
                Ok(running) => return Ok(running),
                Err(err) => err,
            };
            attempt += 1;
            let known = !matches!(err, DispatchError::Refused { .. });
            if !known || attempt == REJOINS {
                let message = format!("the run could not be taken up again: {err}");
                return Err(Verdict::End(failed(ErrorCode::SandboxLost, message)));
            }
        }
    }

    /// Writes what lines say. A verdict when they are the last.
    async fn take(&mut self, processor: &mut Processor, lines: &[Bytes]) -> Option<Verdict> {
        let mut pending = Pending::new();
        for line in lines {
            let Heard { said, upstream } = match processor.line(line) {
                Ok(None) => continue,
                Ok(Some(heard)) => heard,
                Err(err) => {
                    let ending = failed(ErrorCode::Internal, err);
                    return Some(self.keep(pending).await.unwrap_or(Verdict::End(ending)));
                }
            };
            let event = match said {
                Said::Event(event) => event,
                Said::Uploaded(ids) => match self.uploaded(&ids).await {
                    Ok(files) => TurnEvent::Files(files),
                    Err(err) => return Some(Verdict::End(not_stored(&err))),
                },
                Said::End(ending) => {
                    if processor.format() == Format::Envelope {
                        // It does not tell of files, but our own bag does.
                        match self.written_back().await {
                            Ok(files) if files.files.is_empty() => {}
                            Ok(files) => pending.push((TurnEvent::Files(files), None)),
                            Err(err) => return Some(Verdict::End(not_stored(&err))),
                        }
                    }
                    return Some(Verdict::Over(pending, ending));
                }
            };
            push(&mut pending, event, upstream);
        }
        self.keep(pending).await
    }

    async fn keep(&mut self, pending: Pending) -> Option<Verdict> {
        let kept = self.book.append(pending).await;
        kept.err().map(|err| Verdict::End(not_stored(&err)))
    }

    /// The files of these ids, as the bag has them: a sandbox says what it likes.
    async fn uploaded(&self, ids: &[String]) -> Result<Files, StoreError> {
        let row = self.book.row();
        let ids: Vec<FileId> = ids.iter().filter_map(|id| FileId::parse(id).ok()).collect();
        let shelf = Shelf::Bag(row.chat_id.as_str());
        let rows = self.workspace.store.files_by_id(&row.workspace, shelf, &ids).await?;
        Ok(Files { files: rows.iter().map(FileInfo::from).collect() })
    }

    /// The files that came back since the turn began.
    async fn written_back(&self) -> Result<Files, StoreError> {
        let row = self.book.row();
        let mut files = Vec::new();
        let mut after: Option<FileId> = None;
        loop {
            let shelf = Shelf::Bag(row.chat_id.as_str());
            let store = &self.workspace.store;
            let rows = store.list_files(&row.workspace, shelf, after.as_ref(), PAGE).await?;
            let new = rows.iter().filter(|file| {
                file.source == FileSource::Sandbox && file.created_at >= row.started_at
            });
            files.extend(new.map(FileInfo::from));
            match rows.last() {
                Some(last) => after = Some(last.id.clone()),
                None => return Ok(Files { files }),
            }
        }
    }
}

/// However the driver ends, nobody waits for it afterwards.
impl Drop for Driver {
    fn drop(&mut self) {
        self.workspace.turns.strike(&self.book.row().id);
    }
}

/// Whether the run is known to have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Ended,
    MayLive,
}

/// Adds an event; pieces of one message become one.
fn push(pending: &mut Pending, event: TurnEvent, upstream: Option<u64>) {
    let event = match pending.last_mut() {
        None => event,
        Some((last, number)) => match last.merge(event) {
            Some(event) => event,
            None => return *number = upstream,
        },
    };
    pending.push((event, upstream));
}
