//! From bytes to files, all of one request or none.
//!
//! ```text
//! reserve a name ──► put the blob ──► … the next file … ──► commit all rows
//!        any failure ──► blobs away, then their reservations
//! ```
//!
//! In this order, because a name that is free may be taken by somebody else at
//! once. Until the commit nobody sees a file. A server that is killed in
//! between leaves reservations, which `housekeeping` removes.

use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::StatusCode;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{Stream, TryStreamExt};
use store::{FileRow, FileSource, PutError, ReserveError, Shelf, StoreError};
use wire::{Code, workspace::FileId};

use super::{
    limits::{BAG_BYTES, BAG_FILES, UploadLimits},
    mime, naming,
};
use crate::{clock, problem::Problem, state::Workspace};

/// Where files go.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Whose they are.
    pub(crate) workspace: String,
    pub(crate) place: Place,
    pub(crate) source: FileSource,
    pub(crate) limits: UploadLimits,
}

/// A bag or the workspace's own files.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// The bag of this conversation or execution.
    Bag(String),
    Files,
}

impl Place {
    pub(crate) fn shelf(&self) -> Shelf<'_> {
        match self {
            Place::Bag(bag) => Shelf::Bag(bag),
            Place::Files => Shelf::Files,
        }
    }
}

/// The files of one request, on their way.
pub(crate) struct Intake {
    workspace: Workspace,
    target: Target,
    /// Bytes that the bag can still take.
    room: u64,
    taken: Vec<Taken>,
}

/// A name that is reserved, and its blob as soon as that is whole.
struct Taken {
    id: FileId,
    begun: DateTime<Utc>,
    storage_key: String,
    content: Option<Content>,
}

struct Content {
    mime_type: String,
    size: u64,
    sha256: String,
}

impl Intake {
    /// Looks how much room there is.
    pub(crate) async fn open(workspace: &Workspace, target: Target) -> Result<Intake, Problem> {
        let room = room(workspace, &target).await?;
        Ok(Intake { workspace: workspace.clone(), target, room, taken: Vec::new() })
    }

    /// Stores one file, which nobody sees yet. `name` is a clean one.
    pub(crate) async fn add<E>(
        &mut self,
        name: &str,
        bytes: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<(), Problem>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let limits = self.target.limits;
        if self.taken.len() >= limits.files {
            let message = format!("more than {} files in one request", limits.files);
            return Err(too_large(message));
        }
        let shelf = self.target.place.shelf();
        let owner = &self.target.workspace;
        let begun = self.next_moment();
        let reserved = self.workspace.store.reserve_file(
            owner,
            shelf,
            FileId::from_random(rand::random()),
            name,
            self.target.source,
            begun,
            |name| naming::storage_key(owner, &self.target.place.shelf(), name),
        );
        let reserved = reserved.await.map_err(|err| self.refused(err))?;
        let storage_key = reserved.storage_key;
        let place = self.taken.len();
        self.taken.push(Taken {
            id: reserved.id,
            begun,
            storage_key: storage_key.clone(),
            content: None,
        });

        let head: Arc<Mutex<Vec<u8>>> = Arc::default();
        let bytes = bytes.inspect_ok(|chunk| {
            let mut head = head.lock().unwrap_or_else(PoisonError::into_inner);
            let missing = mime::HEAD.saturating_sub(head.len()).min(chunk.len());
            head.extend_from_slice(&chunk[..missing]);
        });
        let allowed = self.allowed();
        let written = self.workspace.blobs.put(&storage_key, bytes, allowed.bytes).await;
        let written = written.map_err(|err| not_stored(err, name, allowed))?;
        let head = head.lock().unwrap_or_else(PoisonError::into_inner);
        let content = Content {
            mime_type: mime::sniff(name, &head),
            size: written.size,
            sha256: written.sha256,
        };
        self.taken[place].content = Some(content);
        Ok(())
    }

    /// Now, or a millisecond behind the file before: files are listed by their
    /// time, and those of one request in the order in which they were sent.
    fn next_moment(&self) -> DateTime<Utc> {
        let earliest = self.taken.last().map(|last| last.begun + TimeDelta::milliseconds(1));
        earliest.map_or_else(clock::now, |earliest| earliest.max(clock::now()))
    }

    /// Makes all files visible, or takes all of them back because of what went
    /// wrong. Whoever waits may go away, this may not.
    pub(crate) async fn close(self, outcome: Result<(), Problem>) -> Result<Vec<FileRow>, Problem> {
        let problem = match outcome {
            Ok(()) => match self.commit().await {
                Ok(rows) => return Ok(rows),
                Err(CommitError::Unknown(err)) => {
                    self.take_back_unseen().await;
                    return Err(err.into());
                }
                Err(CommitError::Refused(problem)) => problem,
            },
            Err(problem) => problem,
        };
        self.take_back(self.taken.iter().collect()).await;
        Err(problem)
    }

    async fn commit(&self) -> Result<Vec<FileRow>, CommitError> {
        let whole = self.taken.iter().filter_map(|taken| {
            let Content { mime_type, size, sha256 } = taken.content.as_ref()?;
            Some((taken.id.clone(), mime_type.clone(), *size, sha256.clone()))
        });
        let files: Vec<_> = whole.collect();
        // Others may have stored something while we did.
        let room = room(&self.workspace, &self.target).await.map_err(CommitError::Refused)?;
        if self.size() > room {
            return Err(CommitError::Refused(bag_full()));
        }
        let committed = self.workspace.store.commit_files(&files).await;
        let rows = committed.map_err(|err| match err {
            StoreError::Full => CommitError::Refused(err.into()),
            // A connection that broke off counts as busy too.
            StoreError::Busy | StoreError::Database(_) | StoreError::Damaged { .. } => {
                CommitError::Unknown(err)
            }
        })?;
        if rows.len() < self.taken.len() {
            // The conversation was deleted, or housekeeping came first.
            let message = "the place of the files went away while they were sent";
            return Err(CommitError::Refused(Problem::new(Code::Aborted, message)));
        }
        Ok(rows)
    }

    /// The same after a commit that may have happened: the blob of a file that
    /// can be seen stays.
    async fn take_back_unseen(&self) {
        let ids: Vec<FileId> = self.taken.iter().map(|taken| taken.id.clone()).collect();
        match self.workspace.store.give_up_reserved(&ids, clock::now()).await {
            Ok(unseen) => {
                let taken = self.taken.iter().filter(|taken| unseen.contains(&taken.id));
                self.take_back(taken.collect()).await;
            }
            Err(err) => {
                tracing::warn!(files = ids.len(), cause = %err, "an upload is left for later");
            }
        }
    }

    /// Removes what nobody has seen. What cannot be removed now stays invisible,
    /// and housekeeping tries again.
    async fn take_back(&self, unseen: Vec<&Taken>) {
        let mut gone = Vec::new();
        for taken in unseen {
            match self.workspace.blobs.delete(&taken.storage_key).await {
                Ok(()) => gone.push(taken.id.clone()),
                Err(err) => {
                    tracing::warn!(file.id = %taken.id, cause = %err, "a blob is left for later");
                }
            }
        }
        if let Err(err) = self.workspace.store.drop_reserved(&gone).await {
            tracing::warn!(files = gone.len(), cause = %err, "reservations are left for later");
        }
    }

    fn size(&self) -> u64 {
        self.taken.iter().filter_map(|taken| Some(taken.content.as_ref()?.size)).sum()
    }

    /// How large the next file may be, and what it is that allows no more.
    fn allowed(&self) -> Allowed {
        let limits = self.target.limits;
        let size = self.size();
        let one = Allowed { bytes: limits.file_bytes, by: Bound::File(limits.file_bytes) };
        let all = Allowed {
            bytes: limits.total_bytes.saturating_sub(size),
            by: Bound::Request(limits.total_bytes),
        };
        let bag = Allowed { bytes: self.room.saturating_sub(size), by: Bound::Bag };
        [one, all, bag].into_iter().min_by_key(|allowed| allowed.bytes).unwrap_or(one)
    }

    fn refused(&self, err: ReserveError) -> Problem {
        match err {
            ReserveError::NoConversation => match &self.target.place {
                Place::Bag(bag) => Problem::not_found("conversation", bag),
                Place::Files => Problem::new(Code::NotFound, "there is no such place"),
            },
            ReserveError::TooMany => bag_full(),
            ReserveError::Store(err) => err.into(),
        }
    }
}

/// Why files did not become visible.
enum CommitError {
    /// They did not, for certain.
    Refused(Problem),
    /// The database broke off, and they may have.
    Unknown(StoreError),
}

#[derive(Clone, Copy)]
struct Allowed {
    bytes: u64,
    by: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    File(u64),
    Request(u64),
    Bag,
}

/// Bytes that fit into the target before it is full.
async fn room(workspace: &Workspace, target: &Target) -> Result<u64, Problem> {
    match &target.place {
        Place::Bag(bag) => {
            let (_, bytes) = workspace.store.bag_totals(bag).await?;
            Ok(BAG_BYTES.saturating_sub(bytes))
        }
        Place::Files => Ok(u64::MAX),
    }
}

fn not_stored(err: PutError, name: &str, allowed: Allowed) -> Problem {
    match err {
        PutError::TooLarge { .. } => match allowed.by {
            Bound::File(limit) => too_large(format!("`{name}` is larger than {limit} bytes")),
            Bound::Request(limit) => {
                too_large(format!("the files are larger than {limit} bytes together"))
            }
            Bound::Bag => bag_full(),
        },
        PutError::Source(err) => {
            let message = format!("the upload of `{name}` broke off");
            Problem::new(Code::InvalidArgument, message).with_code("upload_broken").caused_by(err)
        }
        PutError::Full(err) => {
            Problem::new(Code::ResourceExhausted, "the disk of the files is full")
                .with_code("storage_full")
                .with_status(StatusCode::INSUFFICIENT_STORAGE)
                .caused_by(err)
        }
        PutError::Store(err) => {
            Problem::new(Code::Unavailable, "the files cannot be stored now").caused_by(err)
        }
    }
}

/// More than a request may bring.
pub(crate) fn too_large(message: String) -> Problem {
    Problem::new(Code::ResourceExhausted, message)
        .with_code("too_large")
        .with_status(StatusCode::PAYLOAD_TOO_LARGE)
}

fn bag_full() -> Problem {
    too_large(format!("a bag holds {BAG_FILES} files and {BAG_BYTES} bytes")).with_code("bag_full")
}
