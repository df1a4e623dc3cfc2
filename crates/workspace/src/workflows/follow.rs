//! Following the stream of an execution: what is in it behind a line, then what
//! comes. A follower holds one page of it, so one that does not read costs
//! nothing; it reads from the store, so it may come at any time, and to an
//! execution of another server too.

use std::{io, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use store::{StoreError, StreamEvent};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::workspace::ExecutionId;

use super::live::Live;
use crate::state::Workspace;

/// Lines that are read at once. Each may be as long as a line may be.
const PAGE: u32 = 32;
/// How often an execution is looked at that is not under way in this server,
/// and a database that was busy.
const PAUSE: Duration = Duration::from_secs(1);

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const EXECUTION_ID: HeaderName = HeaderName::from_static("x-mayfly-execution-id");
/// Proxies that would collect lines before they pass them on are told not to.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A reader of one stream.
pub(super) struct Follower {
    workspace: Workspace,
    owner: String,
    id: ExecutionId,
    after: u64,
    live: Option<Live>,
    /// The execution ends when its caller is gone.
    _callers_line: Option<DropGuard>,
}

impl Follower {
    /// Follows behind line `after`.
    pub(super) fn new(
        workspace: &Workspace,
        owner: &str,
        id: &ExecutionId,
        after: u64,
    ) -> Follower {
        Follower {
            workspace: workspace.clone(),
            owner: owner.to_owned(),
            id: id.clone(),
            after,
            live: workspace.executions.get(id),
            _callers_line: None,
        }
    }

    /// This one is the caller's: the execution is cancelled when it is dropped.
    pub(super) fn for_caller(mut self, cancel: CancellationToken) -> Follower {
        self._callers_line = Some(cancel.drop_guard());
        self
    }

    /// The answer that streams it.
    pub(super) fn answer(self) -> Response {
        let id = HeaderValue::from_str(self.id.as_str());
        let lines = stream::unfold(Some(self), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(Some(lines)) => Some((Ok(lines), Some(follower))),
                Ok(None) => None,
                Err(err) => Some((Err(err), None)),
            }
        });
        let mut response = Body::from_stream(lines).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
        if let Ok(id) = id {
            headers.insert(EXECUTION_ID, id);
        }
        response
    }

    /// The next lines; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            // First whether it has ended, then what there is: the other way
            // round, its last lines could fall between the two.
            let ended = self.ended().await?;
            let events = self.workspace.store.events_after(self.id.as_str(), self.after, PAGE);
            let events = match events.await {
                Err(StoreError::Busy) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                read => read.map_err(io::Error::other)?,
            };
            if let Some(last) = events.last() {
                self.after = last.seq;
                return Ok(Some(lines(events)));
            }
            if ended {
                return Ok(None);
            }
            self.wait().await?;
        }
    }

    async fn ended(&mut self) -> io::Result<bool> {
        if let Some(live) = &mut self.live {
            return Ok(live.progress.borrow_and_update().ended);
        }
        match self.workspace.store.execution(&self.owner, &self.id).await {
            Ok(row) => Ok(row.is_none_or(|row| row.ended_at.is_some())),
            Err(StoreError::Busy) => Ok(false),
            Err(err) => Err(io::Error::other(err)),
        }
    }

    async fn wait(&mut self) -> io::Result<()> {
        let stops = || io::Error::other("the server stops");
        match &mut self.live {
            // Its task is gone without an end, which is how a server stops
            // whose database does not take the end.
            Some(live) => live.progress.changed().await.map_err(|_| stops()),
            None => tokio::select! {
                () = self.workspace.closing.cancelled() => Err(stops()),
                () = tokio::time::sleep(PAUSE) => Ok(()),
            },
        }
    }
}

fn lines(events: Vec<StreamEvent>) -> Bytes {
    let length = events.iter().map(|event| event.data.len() + 1).sum();
    let mut bytes = Vec::with_capacity(length);
    for event in events {
        bytes.extend_from_slice(event.data.as_bytes());
        bytes.push(b'\n');
    }
    bytes.into()
}
