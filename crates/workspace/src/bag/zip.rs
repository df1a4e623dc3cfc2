//! A bag as one zip, made while it is sent.
//!
//! A zip's first bytes go out before its last file is opened, and between two
//! reads nothing is held but one piece of one file: a reader that stops costs
//! neither memory nor a thread, and one that goes away ends it. Packing runs on
//! a thread that may block. A blob that cannot be read, or is not what its row
//! says, breaks the body off: half a bag never looks like a whole one.

use std::{
    io::{self, Write},
    mem,
    sync::{Arc, Mutex, PoisonError},
    vec,
};

use bytes::Bytes;
use chrono::{DateTime, Datelike, Timelike, Utc};
use futures_util::{Stream, StreamExt, stream};
use store::{Blob, Blobs, FileRow, GetError};
use zip::{
    CompressionMethod, ZipWriter,
    result::ZipError,
    write::{SimpleFileOptions, StreamWriter},
};

use super::naming::ZipNames;

/// About how much is sent at once.
const PIECE: usize = 64 << 10;
/// Larger files are stored: packed too well, they look like a bomb to whoever
/// unpacks them. Ours starts to wonder at 16 MiB.
const LARGEST_PACKED: u64 = 16 << 20;
/// From this size on an entry needs the fields of zip64.
const ZIP64_FROM: u64 = 0xFFFF_FFFF;

/// The bag could not be packed to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    #[error("`{name}` cannot be read")]
    Open { name: String, source: GetError },
    #[error("`{name}` broke off")]
    Read { name: String, source: io::Error },
    #[error("`{name}` has another size than it had when it was stored")]
    Size { name: String },
    #[error("the zip cannot be written")]
    Write(#[from] ZipError),
    #[error("the thread that packs is gone")]
    Thread,
}

/// The zip of these files.
pub(crate) fn pack(
    blobs: Blobs,
    files: Vec<FileRow>,
) -> impl Stream<Item = Result<Bytes, PackError>> + Send {
    let mut names = ZipNames::default();
    let entries: Vec<Entry> = files.into_iter().map(|row| Entry::new(row, &mut names)).collect();
    let outlet = Outlet::default();
    let zip = ZipWriter::new_stream(outlet.clone());
    let packer = Packer { blobs, entries: entries.into_iter(), open: None, zip: Some(zip), outlet };
    stream::try_unfold(packer, Packer::next)
}

/// One file on its way into the zip.
#[derive(Debug)]
struct Entry {
    name: String,
    storage_key: String,
    size: u64,
    options: SimpleFileOptions,
}

impl Entry {
    fn new(row: FileRow, names: &mut ZipNames) -> Entry {
        let method = if row.size <= LARGEST_PACKED && shrinks(&row.mime_type) {
            CompressionMethod::Deflated
        } else {
            CompressionMethod::Stored
        };
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(dos_time(row.created_at))
            .large_file(row.size >= ZIP64_FROM)
            .unix_permissions(0o644);
        Entry { name: names.take(&row.name), storage_key: row.storage_key, size: row.size, options }
    }
}

type Zip = ZipWriter<StreamWriter<Outlet>>;

struct Packer {
    blobs: Blobs,
    entries: vec::IntoIter<Entry>,
    /// The entry being copied, and how many of its bytes are still to come.
    open: Option<(Entry, Blob, u64)>,
    /// None once the zip is complete.
    zip: Option<Zip>,
    /// Where the zip's bytes come out.
    outlet: Outlet,
}

impl Packer {
    /// The next piece of the zip; `None` after the last.
    async fn next(mut self) -> Result<Option<(Bytes, Packer)>, PackError> {
        loop {
            let ready = self.outlet.len();
            if ready >= PIECE || (ready > 0 && self.zip.is_none()) {
                return Ok(Some((self.outlet.take(), self)));
            }
            let Some(zip) = self.zip.take() else { return Ok(None) };
            self.zip = self.step(zip).await?;
        }
    }

    /// Adds what comes next to the zip, which is gone when that was its end.
    async fn step(&mut self, zip: Zip) -> Result<Option<Zip>, PackError> {
        if let Some((entry, mut blob, left)) = self.open.take() {
            let name = || entry.name.clone();
            let Some(chunk) = blob.bytes.next().await else {
                return if left == 0 {
                    Ok(Some(zip))
                } else {
                    Err(PackError::Size { name: name() })
                };
            };
            let chunk = chunk.map_err(|source| PackError::Read { name: name(), source })?;
            let left = u64::try_from(chunk.len()).ok().and_then(|length| left.checked_sub(length));
            let left = left.ok_or_else(|| PackError::Size { name: name() })?;
            self.open = Some((entry, blob, left));
            return on_thread(move || {
                let mut zip = zip;
                zip.write_all(&chunk).map_err(ZipError::from)?;
                Ok(Some(zip))
            })
            .await;
        }
        let Some(entry) = self.entries.next() else {
            return on_thread(move || zip.finish().map(|_| None)).await;
        };
        let blob = self.blobs.get(&entry.storage_key).await;
        let blob = blob.map_err(|source| PackError::Open { name: entry.name.clone(), source })?;
        if blob.size != entry.size {
            return Err(PackError::Size { name: entry.name });
        }
        let (name, options, left) = (entry.name.clone(), entry.options, entry.size);
        self.open = Some((entry, blob, left));
        on_thread(move || {
            let mut zip = zip;
            zip.start_file(name, options)?;
            Ok(Some(zip))
        })
        .await
    }
}

/// Packs a piece where waiting for a processor hurts nobody else.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ZipError> + Send + 'static,
) -> Result<T, PackError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| PackError::Thread)?;
    Ok(done?)
}

/// Keeps what the zip writes until it is taken away.
#[derive(Clone, Debug, Default)]
struct Outlet(Arc<Mutex<Vec<u8>>>);

impl Outlet {
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn take(&self) -> Bytes {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut *written).into()
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether packing files of that type is worth the time.
fn shrinks(mime_type: &str) -> bool {
    let packed_already = match mime_type.split_once('/') {
        Some(("image", kind)) => !matches!(kind, "svg+xml" | "bmp" | "tiff" | "x-icon"),
        Some(("audio" | "video" | "font", _)) => true,
        Some(("application", kind)) => {
            let packers = ["zip", "gzip", "x-xz", "x-7z-compressed", "x-bzip2", "vnd.rar", "zstd"];
            packers.contains(&kind)
                || ["pdf", "epub+zip", "java-archive"].contains(&kind)
                || kind.starts_with("vnd.openxmlformats")
                || kind.starts_with("vnd.oasis.opendocument")
        }
        Some(_) | None => false,
    };
    !packed_already
}

/// The time as a zip keeps it: from 1980 on, in steps of two seconds.
fn dos_time(time: DateTime<Utc>) -> zip::DateTime {
    let part = |number: u32| u8::try_from(number).unwrap_or_default();
    let year = u16::try_from(time.year()).unwrap_or_default();
    zip::DateTime::from_date_and_time(
        year,
        part(time.month()),
        part(time.day()),
        part(time.hour()),
        part(time.minute()),
        part(time.second()),
    )
    .unwrap_or_default()
}

#[cfg(test)]
mod tests;
