//! One blob on its way in: a small one in one request, a large one in parts.
//!
//! ```text
//! bytes ──► part of 8 MiB ──► the first full one begins an upload ──► complete
//!                                      any failure, or nobody waits ──► abort
//! ```

use std::error::Error;
use std::io;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use object_store::path::Path as Location;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{BlobError, PutError, Written, io_cause};

/// How much is held in memory: the size of every part but the last.
const PART: usize = 8 * 1024 * 1024;

/// Sends everything or leaves nothing.
pub(super) async fn put<E>(
    store: &dyn ObjectStore,
    aborts: &TaskTracker,
    location: &Location,
    bytes: impl Stream<Item = Result<Bytes, E>>,
    limit: u64,
) -> Result<Written, PutError>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let mut upload = Upload { store, aborts, location, begun: None };
    let outcome = match upload.send(bytes, limit).await {
        Ok((written, last)) => upload.finish(last).await.map(|()| written),
        Err(error) => Err(error),
    };
    if outcome.is_err() {
        upload.abort().await;
    }
    outcome
}

struct Upload<'a> {
    store: &'a dyn ObjectStore,
    aborts: &'a TaskTracker,
    location: &'a Location,
    begun: Option<Box<dyn MultipartUpload>>,
}

impl Upload<'_> {
    /// Sends all full parts and gives back what is left.
    async fn send<E>(
        &mut self,
        bytes: impl Stream<Item = Result<Bytes, E>>,
        limit: u64,
    ) -> Result<(Written, Bytes), PutError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut bytes = pin!(bytes);
        let mut digest = Sha256::new();
        let mut size = 0;
        let mut part = BytesMut::new();
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk.map_err(|error| PutError::Source(error.into()))?;
            size += chunk.len() as u64;
            if size > limit {
                return Err(PutError::TooLarge { limit });
            }
            digest.update(&chunk);
            // Copied, because a chunk may be a small piece of a large buffer.
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let (fits, later) = rest.split_at(rest.len().min(PART - part.len()));
                part.extend_from_slice(fits);
                rest = later;
                if part.len() == PART {
                    self.send_part(part.split().freeze()).await.map_err(failed)?;
                }
            }
        }
        let sha256 = wire::hex(&digest.finalize());
        Ok((Written { size, sha256 }, part.freeze()))
    }

    async fn send_part(&mut self, part: Bytes) -> Result<(), object_store::Error> {
        let upload = match &mut self.begun {
            Some(upload) => upload,
            None => self.begun.insert(self.store.put_multipart(self.location).await?),
        };
        upload.put_part(PutPayload::from_bytes(part)).await
    }

    async fn finish(&mut self, last: Bytes) -> Result<(), PutError> {
        if self.begun.is_none() {
            let payload = PutPayload::from_bytes(last);
            self.store.put(self.location, payload).await.map_err(failed)?;
            return Ok(());
        }
        if !last.is_empty() {
            self.send_part(last).await.map_err(failed)?;
        }
        if let Some(upload) = &mut self.begun {
            upload.complete().await.map_err(failed)?;
        }
        self.begun = None;
        Ok(())
    }

    async fn abort(&mut self) {
        if let Some(upload) = &mut self.begun {
            // The failure that led here is what the caller hears. What even
            // this leaves, the bucket's lifecycle or the next start removes.
            let _ = upload.abort().await;
        }
        self.begun = None;
    }
}

/// The caller went away: S3 keeps parts until it is told not to.
impl Drop for Upload<'_> {
    fn drop(&mut self) {
        if let (Some(mut upload), Ok(runtime)) = (self.begun.take(), Handle::try_current()) {
            let abort = async move {
                let _ = upload.abort().await;
            };
            self.aborts.spawn_on(abort, &runtime);
        }
    }
}

fn failed(error: object_store::Error) -> PutError {
    let full = io_cause(&error).is_some_and(|cause| {
        matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    });
    let error = BlobError(error);
    if full { PutError::Full(error) } else { PutError::Store(error) }
}
