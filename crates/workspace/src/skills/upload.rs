//! A skill on its way in: one zip in the part `bundle`, or the files of a
//! folder in parts `file`, whose file names are their paths. `name` and
//! `description` may come along and win over what the skill says of itself.
//!
//! Parts go to a file without a name as they arrive, so that no upload is held
//! in memory.

use std::{error::Error as _, fs::File, io::Seek};

use axum::{
    extract::{FromRequest, Request},
    http::{StatusCode, header::CONTENT_TYPE},
};
use multer::{Constraints, Field, Multipart, SizeLimit};
use tokio::{io::AsyncWriteExt, sync::Semaphore};
use wire::Code;

use super::{
    bundle::{self, Bundle, BundleError},
    folder::{BYTES, BadPath, Entry, FILES, Folder, check_path},
    unpack::unpack,
};
use crate::problem::Problem;

/// What boundaries and headers of parts may add.
const OVERHEAD: u64 = 4 << 20;
/// Largest text field.
const TEXT: u64 = 8 << 10;
/// How many uploads are packed at once: it takes a core each.
static PACKING: Semaphore = Semaphore::const_new(2);

/// A skill that was sent, packed.
pub(super) struct Upload {
    pub(super) bundle: Bundle,
    /// What it is to be called.
    pub(super) name: Option<String>,
    /// What it is said to be for.
    pub(super) description: Option<String>,
}

/// What came, before it is looked into.
#[derive(Default)]
struct Received {
    spool: Option<tokio::fs::File>,
    end: u64,
    is_zip: bool,
    entries: Vec<Entry>,
    name: Option<String>,
    description: Option<String>,
}

impl<S: Send + Sync> FromRequest<S> for Upload {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Upload, Problem> {
        let declared = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = declared.and_then(|declared| multer::parse_boundary(declared).ok());
        let boundary = boundary.ok_or_else(|| {
            Problem::new(Code::InvalidArgument, "content type must be multipart/form-data")
                .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
        })?;
        let sizes = SizeLimit::new()
            .whole_stream(BYTES + OVERHEAD)
            .for_field("name", TEXT)
            .for_field("description", TEXT);
        let mut form = Multipart::with_constraints(
            request.into_body().into_data_stream(),
            boundary,
            Constraints::new().size_limit(sizes),
        );
        let mut received = Received::default();
        while let Some(field) = form.next_field().await.map_err(broken_form)? {
            received.take(field).await?;
        }
        received.pack().await
    }
}

impl Received {
    async fn take(&mut self, mut field: Field<'_>) -> Result<(), Problem> {
        match field.name().unwrap_or_default() {
            "name" => self.name = Some(field.text().await.map_err(broken_form)?),
            "description" => self.description = Some(field.text().await.map_err(broken_form)?),
            "bundle" => {
                if self.spool.is_some() {
                    return Err(Problem::bad_field("bundle", "is one zip, and nothing beside it"));
                }
                self.is_zip = true;
                self.append("bundle", &mut field).await?;
            }
            "file" => {
                if self.is_zip {
                    return Err(Problem::bad_field("file", "does not go with a `bundle`"));
                }
                if self.entries.len() >= FILES {
                    return Err(refused(BundleError::TooManyFiles, "file"));
                }
                let path = field.file_name().unwrap_or_default();
                let path = path.strip_prefix("./").unwrap_or(path).to_owned();
                check_path(&path).map_err(|reason: BadPath| {
                    refused(BundleError::Path { path: path.clone(), reason }, "file")
                })?;
                let begins = self.end;
                self.append("file", &mut field).await?;
                self.entries.push(Entry { path, begins, size: self.end - begins });
            }
            other => {
                return Err(Problem::bad_field(
                    other,
                    "the parts are `bundle` or `file`, `name` and `description`",
                ));
            }
        }
        Ok(())
    }

    async fn append(&mut self, name: &str, field: &mut Field<'_>) -> Result<(), Problem> {
        let failed = |err| refused(BundleError::Spool(err), name);
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => {
                let file = tempfile::tempfile().map_err(failed)?;
                self.spool.insert(tokio::fs::File::from_std(file))
            }
        };
        while let Some(piece) = field.chunk().await.map_err(broken_form)? {
            self.end += piece.len() as u64;
            if self.end > BYTES {
                return Err(refused(BundleError::TooLarge, name));
            }
            spool.write_all(&piece).await.map_err(failed)?;
        }
        spool.flush().await.map_err(failed)
    }

    async fn pack(self) -> Result<Upload, Problem> {
        let Received { spool, is_zip, entries, name, description, .. } = self;
        let Some(spool) = spool else {
            return Err(Problem::bad_field("bundle", "there is neither a `bundle` nor a `file`"));
        };
        let field = if is_zip { "bundle" } else { "file" };
        let spool = spool.into_std().await;
        let turn = PACKING.acquire().await;
        let packing = tokio::task::spawn_blocking(move || pack(spool, is_zip, entries));
        let packed = packing.await;
        drop(turn);
        let packed = packed.map_err(|panic| {
            Problem::new(Code::Internal, "the skill could not be packed").caused_by(panic)
        })?;
        let bundle = packed.map_err(|err| refused(err, field))?;
        Ok(Upload { bundle, name, description })
    }
}

fn pack(mut spool: File, is_zip: bool, entries: Vec<Entry>) -> Result<Bundle, BundleError> {
    spool.rewind()?;
    let folder = if is_zip { unpack(spool)? } else { Folder { spool, entries } };
    bundle::pack(folder)
}

/// What is wrong with a bundle, or with the disk that it waits on.
pub(super) fn refused(err: BundleError, field: &str) -> Problem {
    let message = err.to_string();
    match err {
        BundleError::NotZip(_) | BundleError::Path { .. } | BundleError::NoInstructions => {
            Problem::bad_field(field, message).with_code("bad_bundle")
        }
        BundleError::TooManyFiles | BundleError::TooLarge => Problem::bad_field(field, message)
            .with_code("too_large")
            .with_status(StatusCode::PAYLOAD_TOO_LARGE),
        BundleError::Pack(zip::result::ZipError::Io(err)) | BundleError::Spool(err) => {
            disk(&message, err)
        }
        BundleError::Pack(err) => Problem::new(Code::Internal, message).caused_by(err),
        BundleError::Version(err) => Problem::new(Code::Internal, message).caused_by(err),
    }
}

fn disk(message: &str, err: std::io::Error) -> Problem {
    if err.kind() == std::io::ErrorKind::StorageFull {
        return Problem::new(Code::ResourceExhausted, "the disk is full")
            .with_code("storage_full")
            .with_status(StatusCode::INSUFFICIENT_STORAGE)
            .caused_by(err);
    }
    Problem::new(Code::Internal, message).caused_by(err)
}

/// What is wrong with a form, or with the connection that it comes by.
fn broken_form(err: multer::Error) -> Problem {
    let too_large = |message: String| {
        Problem::new(Code::ResourceExhausted, message)
            .with_code("too_large")
            .with_status(StatusCode::PAYLOAD_TOO_LARGE)
    };
    if let multer::Error::StreamSizeExceeded { limit } = err {
        return too_large(format!("the upload is larger than {limit} bytes"));
    }
    if let multer::Error::FieldSizeExceeded { limit, field_name } = &err {
        let name = field_name.clone().unwrap_or_default();
        return too_large(format!("`{name}` is larger than {limit} bytes")).in_field(name);
    }
    let message = match err.source() {
        Some(source) => format!("the form cannot be read: {err}: {source}"),
        None => format!("the form cannot be read: {err}"),
    };
    Problem::new(Code::InvalidArgument, message).with_code("bad_form")
}
