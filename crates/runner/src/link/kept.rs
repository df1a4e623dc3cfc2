//! Files of a run without a workspace: the caller brought the config itself, so
//! what the agent sends back stays with the run's log, for the caller to fetch.
//!
//! ```text
//! <run>/assets/1, 2, …      what was sent, numbered
//! <run>/assets/index.json   their names, sizes and sums; written last
//! ```
//!
//! Once per run, all or nothing. Names come from inside a sandbox, so they are
//! kept as text and never become part of a path.

use std::{
    io,
    path::{Path, PathBuf},
};

use futures_util::TryStreamExt;
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use multer::{Constraints, Multipart, SizeLimit};
use sandbox::{Body, full_body};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::{fs, io::AsyncWriteExt};
use utoipa::ToSchema;
use wire::{agent::AgentLimits, run::UploadedFile};

use super::refusal::Refusal;
use crate::described;

/// The directory's name in its run's.
pub(crate) const DIRECTORY: &str = "assets";
const INDEX: &str = "index.json";
/// Longest name that is kept.
const NAME_BYTES: usize = 255;

/// What a run left.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = RunAssets)]
pub(crate) struct Kept {
    #[schema(value_type = Vec<described::Asset>)]
    pub(crate) files: Vec<UploadedFile>,
}

/// Why files were not kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("the files of this run were sent already")]
    Again,
    #[error("the upload is not multipart/form-data: {0}")]
    Form(#[from] multer::Error),
    #[error("more than {0} files")]
    Many(u64),
    #[error("a part is not named `file`, or has no file name")]
    Part,
    #[error("a file name is longer than {NAME_BYTES} bytes")]
    Name,
    #[error("the files could not be stored")]
    Disk(#[from] io::Error),
}

impl Kept {
    /// What the run in `directory` left; nothing if it sent nothing.
    pub(crate) async fn read(directory: &Path) -> io::Result<Kept> {
        match fs::read(directory.join(DIRECTORY).join(INDEX)).await {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(err) => Err(err),
        }
    }

    /// Where the content of one of them is.
    pub(crate) fn path(&self, directory: &Path, id: &str) -> Option<(&UploadedFile, PathBuf)> {
        let at = self.files.iter().position(|file| file.id == id)?;
        Some((&self.files[at], directory.join(DIRECTORY).join((at + 1).to_string())))
    }
}

/// Takes the upload of the run in `directory`.
pub(super) async fn take(
    directory: &Path,
    limits: &AgentLimits,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let place = directory.join(DIRECTORY);
    let kept = match store(&place, limits, request).await {
        Ok(kept) => kept,
        Err(err) => {
            if !matches!(err, KeepError::Again) {
                // All or nothing; what is left of a try is not a try that counts.
                let _ = fs::remove_dir_all(&place).await;
            }
            return Err(Refusal::NotKept(err.to_string()));
        }
    };
    let mut response = Response::new(full_body(serde_json::json!(kept).to_string()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

async fn store(
    place: &Path,
    limits: &AgentLimits,
    request: Request<Incoming>,
) -> Result<Kept, KeepError> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(content_type)?;
    let sizes = SizeLimit::new()
        .whole_stream(limits.upload_total_bytes.saturating_add(1 << 20))
        .per_field(limits.upload_file_bytes);
    let constraints = Constraints::new().size_limit(sizes);
    match fs::create_dir(place).await {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => return Err(KeepError::Again),
        made => made?,
    }
    let body = request.into_body().into_data_stream().map_err(io::Error::other);
    let mut form = Multipart::with_constraints(body, boundary, constraints);
    let mut kept = Kept::default();
    while let Some(mut field) = form.next_field().await? {
        let number = kept.files.len() + 1;
        if number as u64 > limits.upload_files {
            return Err(KeepError::Many(limits.upload_files));
        }
        let name = field.file_name().filter(|_| field.name() == Some("file"));
        let name = name.ok_or(KeepError::Part)?.to_owned();
        if name.len() > NAME_BYTES {
            return Err(KeepError::Name);
        }
        let kind = field.content_type().map(|kind| kind.essence_str().to_owned());
        let mut file = fs::File::create_new(place.join(number.to_string())).await?;
        let (mut size, mut sum) = (0, Sha256::new());
        while let Some(chunk) = field.chunk().await? {
            size += chunk.len() as u64;
            sum.update(&chunk);
            file.write_all(&chunk).await?;
        }
        file.flush().await?;
        kept.files.push(UploadedFile {
            id: format!("file_{number}"),
            name,
            mime_type: kind.unwrap_or_else(|| "application/octet-stream".to_owned()),
            size,
            sha256: wire::hex(&sum.finalize()),
            storage_key: format!("{DIRECTORY}/{number}"),
        });
    }
    let index = serde_json::to_vec(&kept).map_err(io::Error::other)?;
    fs::write(place.join(INDEX), index).await?;
    Ok(kept)
}
