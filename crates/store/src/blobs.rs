//! Blobs: the bytes of files, beside the rows that name them.
//!
//! On disk by default, in an S3 bucket by URL; both keep the same promises. A
//! blob is there whole or not at all, also when the server is killed while it
//! writes one, and no blob is ever held in memory whole: it passes in parts.
//! Which key a file has is its row's business.

mod disk;
mod s3;
mod spelling;
mod upload;

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use object_store::path::Path as Location;
use object_store::{GetResultPayload, ObjectStore, ObjectStoreExt};
use tokio_util::io::ReaderStream;
use tokio_util::task::TaskTracker;

/// How much of a blob on disk is read at once.
const CHUNK: usize = 256 * 1024;

/// A handle to the blobs. Clones share it.
#[derive(Clone)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    place: Place,
    /// Uploads whose caller went away, being taken back.
    aborts: TaskTracker,
}

/// Where the blobs are.
#[derive(Clone, Debug)]
enum Place {
    Disk,
    Bucket { prefix: String },
}

/// A blob that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many bytes it has.
    pub size: u64,
    /// Their SHA-256 in lowercase hex.
    pub sha256: String,
}

/// A blob being read.
pub struct Blob {
    /// How many bytes it has.
    pub size: u64,
    /// The bytes, from the first to the last.
    pub bytes: BoxStream<'static, Result<Bytes, io::Error>>,
}

/// The blobs cannot be reached at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenBlobsError {
    /// The directory cannot be made or read.
    #[error("cannot use `{path}` for blobs")]
    Directory {
        /// The directory, or what in it is at fault.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The URL of the bucket is not one.
    #[error("the URL of the bucket {0}")]
    Url(String),
    /// The settings do not fit together.
    #[error("cannot set the blob store up")]
    Setup(#[source] object_store::Error),
}

/// The disk or the S3 server refused or did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the blob store did not answer")]
pub struct BlobError(#[from] object_store::Error);

/// A blob was not stored; nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// It has more bytes than it may have.
    #[error("more than {limit} bytes")]
    TooLarge {
        /// How many it may have.
        limit: u64,
    },
    /// Whoever sends it broke off.
    #[error("the bytes broke off")]
    Source(#[source] Box<dyn Error + Send + Sync>),
    /// There is no room for it.
    #[error("the disk of the blobs is full")]
    Full(#[source] BlobError),
    /// The store refused or did not answer.
    #[error(transparent)]
    Store(BlobError),
}

/// A blob was not read.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// There is none of that key.
    #[error("there is no such blob")]
    NotFound,
    /// The store refused or did not answer.
    #[error(transparent)]
    Store(#[from] BlobError),
}

impl Blobs {
    /// Blobs below a directory, which is made if it is missing. One server
    /// at a time: what an interrupted one left behind is removed here.
    pub fn disk(directory: &Path) -> Result<Blobs, OpenBlobsError> {
        let store = disk::open(directory)?;
        Ok(Blobs { store: Arc::new(store), place: Place::Disk, aborts: TaskTracker::new() })
    }

    /// Blobs in a bucket: `s3://bucket/prefix?endpoint=…&region=…`. Who we are
    /// is in the environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
    /// the other ways of AWS.
    pub fn s3(url: &str) -> Result<Blobs, OpenBlobsError> {
        Blobs::s3_in(url, |name| std::env::var(name).ok())
    }

    /// The same in an environment that is not the process's own.
    pub fn s3_in(
        url: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Blobs, OpenBlobsError> {
        let (store, prefix) = s3::open(url, environment)?;
        let place = Place::Bucket { prefix };
        Ok(Blobs { store: Arc::new(store), place, aborts: TaskTracker::new() })
    }

    /// Stores and removes a small blob: an error here is one of the settings.
    pub async fn check(&self) -> Result<(), PutError> {
        let bytes = futures_util::stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"mayfly"))]);
        self.put("mayfly-check", bytes, 6).await?;
        self.delete("mayfly-check").await.map_err(PutError::Store)
    }

    /// Stores a blob of at most `limit` bytes, all or nothing. A caller that
    /// goes away in between abandons it.
    pub async fn put<E>(
        &self,
        key: &str,
        bytes: impl Stream<Item = Result<Bytes, E>>,
        limit: u64,
    ) -> Result<Written, PutError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let location = self.location(key).map_err(PutError::Store)?;
        upload::put(self.store.as_ref(), &self.aborts, &location, bytes, limit).await
    }

    /// Opens a blob to read it from its beginning.
    pub async fn get(&self, key: &str) -> Result<Blob, GetError> {
        let found = match self.store.get(&self.location(key)?).await {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Err(GetError::NotFound),
            Err(error) => return Err(BlobError(error).into()),
        };
        let size = found.meta.size;
        let bytes = match found.payload {
            GetResultPayload::File(file, _) => {
                let file = tokio::fs::File::from_std(file);
                ReaderStream::with_capacity(file, CHUNK).boxed()
            }
            GetResultPayload::Stream(bytes) => {
                bytes.map(|chunk| chunk.map_err(io::Error::other)).boxed()
            }
        };
        Ok(Blob { size, bytes })
    }

    /// Removes a blob. One that is not there is no error.
    pub async fn delete(&self, key: &str) -> Result<(), BlobError> {
        match self.store.delete(&self.location(key)?).await {
            Ok(()) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until what abandoned uploads left behind is gone.
    pub async fn close(&self) {
        self.aborts.close();
        self.aborts.wait().await;
    }

    fn location(&self, key: &str) -> Result<Location, BlobError> {
        let mut spelled = spelling::spell(key);
        if let Place::Bucket { prefix } = &self.place
            && !prefix.is_empty()
        {
            spelled = format!("{prefix}/{spelled}");
        }
        let location = Location::parse(&spelled).map_err(|error| BlobError(error.into()))?;
        // A slash at either end is forgotten by the parser, and so would be the key.
        if key.is_empty() || location.as_ref() != spelled {
            return Err(BlobError(
                object_store::path::Error::EmptySegment { path: spelled }.into(),
            ));
        }
        Ok(location)
    }
}

/// On disk, a key below a blob runs through a file that is no directory.
fn is_missing(error: &object_store::Error) -> bool {
    let below_a_blob = || {
        io_cause(error).is_some_and(|cause| {
            matches!(cause.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory)
        })
    };
    matches!(error, object_store::Error::NotFound { .. }) || below_a_blob()
}

/// What the operating system said, if it is what failed.
fn io_cause(error: &object_store::Error) -> Option<&io::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blobs").field("place", &self.place).finish_non_exhaustive()
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob").field("size", &self.size).finish_non_exhaustive()
    }
}
