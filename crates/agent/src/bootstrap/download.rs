//! Fetching a zip into a file that has no name: it is gone with its handle,
//! whatever happens. Its bytes are hashed as they pass.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use http::Request;
use sha2::{Digest, Sha256};
use wire::agent::AgentLimits;
use wire::hex;

use crate::failure::with_cause;
use crate::http::{self as link_http, HttpError, allowance, no_body};

/// A zip may be a little larger than what it holds, for its headers.
const HEADERS: u64 = 16 << 20;

/// What was fetched.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) file: File,
    /// In lowercase hex.
    pub(super) sha256: String,
}

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum DownloadError {
    #[error("it answered {0}")]
    Status(u16),
    #[error("the zip is larger than {0} bytes")]
    TooLarge(u64),
    #[error("{}", with_cause(.0))]
    Http(HttpError),
    #[error("`{0}` is not an address that can be asked")]
    BadUrl(String),
    #[error("cannot write the zip: {0}")]
    Write(std::io::Error),
}

/// Fetches what holds at most `limit` bytes once it is unpacked.
pub(super) async fn download(
    url: &str,
    directory: &Path,
    limit: u64,
    limits: &AgentLimits,
) -> Result<Download, DownloadError> {
    let patience = Duration::from_millis(limits.callback_timeout_ms);
    let request =
        Request::get(url).body(no_body()).map_err(|_| DownloadError::BadUrl(url.to_owned()))?;
    let began = Instant::now();
    let mut answer = link_http::send(request, patience).await.map_err(DownloadError::Http)?;
    if !answer.status.is_success() {
        return Err(DownloadError::Status(answer.status.as_u16()));
    }
    let limit = limit.saturating_add(HEADERS);
    let too_large = |length: u64| length > limit;
    if answer.declared_length().is_some_and(too_large) {
        return Err(DownloadError::TooLarge(limit));
    }
    let mut file = nameless(directory).map_err(DownloadError::Write)?;
    let mut hash = Sha256::new();
    let mut length = 0u64;
    loop {
        // Large bodies take longer, but each byte has to earn its time.
        let left = (patience + allowance(length)).saturating_sub(began.elapsed());
        let chunk = match answer.next_chunk(left.min(patience)).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(HttpError::Timeout(_)) => {
                return Err(DownloadError::Http(HttpError::Timeout(patience)));
            }
            Err(err) => return Err(DownloadError::Http(err)),
        };
        length = length.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if too_large(length) {
            return Err(DownloadError::TooLarge(limit));
        }
        hash.update(&chunk);
        file.write_all(&chunk).map_err(DownloadError::Write)?;
    }
    file.rewind().map_err(DownloadError::Write)?;
    Ok(Download { file, sha256: hex(&hash.finalize()) })
}

/// A file that is removed before anything is in it.
fn nameless(directory: &Path) -> std::io::Result<File> {
    let path = directory.join(format!(".{}.part", std::process::id()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
