//! Sessions of CLIs, kept at the host between sandboxes: a zip of the few files
//! that a session is made of, by their places below the home.
//!
//! Only files that the adapter names are taken, and only regular ones below the
//! home. What comes back was written by a sandbox: it is unpacked aside, and
//! only what belongs to the session is moved to its place.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Cursor, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Request, StatusCode, header};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use wire::agent::Harness;
use wire::run::{ErrorCode, Level};
use zip::ZipWriter;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;

use super::{claude, session_files};
use crate::emit::Emitter;
use crate::failure::{Failure, with_cause};
use crate::http::{self as link_http, Body, HttpError, allowance, no_body, whole_body};
use crate::session::Session;
use crate::unpack::{UnpackError, unpack};

/// Most bytes of one session, packed and unpacked.
const LIMIT: u64 = 64 << 20;
/// Longest id of a session; the host link takes no longer one.
const ID_MAX: usize = 128;

/// Why a session did not get here.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error("session `{0}` is not known here")]
    Unknown(String),
    #[error("`{0}` is not the id of a session")]
    BadId(String),
    #[error("{}", with_cause(.0))]
    Http(#[from] HttpError),
    #[error("the host answered {0}")]
    Status(StatusCode),
    #[error("its files were refused: {}", with_cause(.0))]
    Unpack(#[from] UnpackError),
    #[error("{0}")]
    File(#[from] io::Error),
}

/// Why a session was not kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("its id is none that can be kept")]
    BadId,
    #[error("it has more than {LIMIT} bytes")]
    TooLarge,
    #[error("{}", with_cause(.0))]
    Http(#[from] HttpError),
    #[error("the host answered {0}")]
    Status(StatusCode),
    #[error("{0}")]
    Zip(#[from] ZipError),
    #[error("{0}")]
    File(#[from] io::Error),
}

/// Puts the files of a session in their places, unless they are there.
pub(super) async fn restore(session: &Session, id: &str) -> Result<(), Failure> {
    fetch(session, id).await.map_err(|err| match err {
        RestoreError::Unknown(_) | RestoreError::BadId(_) => {
            Failure::new(ErrorCode::BadRequest, err.to_string())
        }
        RestoreError::Http(_)
        | RestoreError::Status(_)
        | RestoreError::Unpack(_)
        | RestoreError::File(_) => {
            let message = format!("cannot fetch session `{id}`: {err}");
            Failure::new(ErrorCode::BootstrapFailed, message)
        }
    })
}

/// Gives the files of a session to the host. A run does not fail by it.
pub(super) async fn keep(session: &Session, id: &str, out: &Emitter) {
    if let Err(err) = send(session, id).await {
        out.log(Level::Warn, format!("session `{id}` cannot go on later: {err}"));
    }
}

async fn fetch(session: &Session, id: &str) -> Result<(), RestoreError> {
    if !is_id(id) {
        return Err(RestoreError::BadId(id.escape_default().take(ID_MAX).collect()));
    }
    let is_in_place = |file: &PathBuf| {
        let kept = file.strip_prefix(&session.home).ok();
        kept.is_some_and(|kept| place(session, id, kept).as_deref() == Some(kept))
    };
    if session_files(session, id).iter().any(is_in_place) {
        return Ok(());
    }
    let unknown = || RestoreError::Unknown(id.to_owned());
    let patience = patience(session);
    let request = Request::get(address(session, id)).body(no_body()).map_err(|_| unknown())?;
    let answer = link_http::send(request, patience).await?;
    match answer.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Err(unknown()),
        status => return Err(RestoreError::Status(status)),
    }
    let packed = answer.read_whole(LIMIT, patience + allowance(LIMIT)).await?;
    let mut archive =
        File::from(memfd_create("session", MemfdFlags::CLOEXEC).map_err(io::Error::from)?);
    archive.write_all(&packed)?;
    match place_all(session, id, &archive)? {
        0 => Err(unknown()),
        _ => Ok(()),
    }
}

/// Unpacks aside and moves what belongs to the session; how much that is.
fn place_all(session: &Session, id: &str, archive: &File) -> Result<usize, RestoreError> {
    let aside = Aside::new(&session.home)?;
    unpack(archive, &aside.0, LIMIT)?;
    let mut placed = 0;
    for file in files_below(&aside.0)? {
        let Ok(kept) = file.strip_prefix(&aside.0) else { continue };
        let Some(place) = place(session, id, kept) else { continue };
        let place = session.home.join(place);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::rename(&file, &place)?;
        placed += 1;
    }
    Ok(placed)
}

/// Where a file of a kept session belongs below the home; nothing for one that
/// this session does not have. What a CLI reads besides may be programs.
fn place(session: &Session, id: &str, kept: &Path) -> Option<PathBuf> {
    let below = |folder: &str| -> Option<Vec<&str>> {
        kept.strip_prefix(folder).ok()?.iter().map(OsStr::to_str).collect()
    };
    let belongs = match session.harness {
        Harness::Builtin => false,
        Harness::ClaudeCode => return claude::place(session, id, kept),
        Harness::Codex => match below(".codex/sessions")?[..] {
            [_, _, _, name] => {
                name.starts_with("rollout-") && name.ends_with(&format!("-{id}.jsonl"))
            }
            _ => false,
        },
        Harness::Opencode => match below(".local/share/opencode")?[..] {
            [name] => ["opencode.db", "opencode.db-wal", "opencode.db-shm"].contains(&name),
            _ => false,
        },
        Harness::GrokBuild => match below(".grok/sessions")?[..] {
            [_, folder, _] => folder == id,
            _ => false,
        },
    };
    belongs.then(|| kept.to_owned())
}

async fn send(session: &Session, id: &str) -> Result<(), KeepError> {
    if !is_id(id) {
        return Err(KeepError::BadId);
    }
    let packed = pack(&session.home, &session_files(session, id))?;
    let Some(packed) = packed else { return Ok(()) };
    let length = u64::try_from(packed.len()).unwrap_or(u64::MAX);
    if length > LIMIT {
        return Err(KeepError::TooLarge);
    }
    let request: Request<Body> = Request::put(address(session, id))
        .header(header::CONTENT_TYPE, "application/zip")
        .body(whole_body(packed))
        .map_err(|_| KeepError::BadId)?;
    let answer = link_http::send(request, patience(session) + allowance(length)).await?;
    if !answer.status.is_success() {
        return Err(KeepError::Status(answer.status));
    }
    Ok(())
}

/// A zip of files by their places below the home; nothing if there are none.
fn pack(home: &Path, files: &[PathBuf]) -> Result<Option<Vec<u8>>, KeepError> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let mut left = LIMIT;
    let mut packed = 0;
    for path in files {
        let Ok(place) = path.strip_prefix(home) else { continue };
        let Some(mut file) = open_regular(path)? else { continue };
        let options = SimpleFileOptions::default().unix_permissions(0o600);
        writer.start_file(place.to_string_lossy(), options)?;
        // A file may grow while it is read.
        let count = io::copy(&mut (&mut file).take(left.saturating_add(1)), &mut writer)?;
        left = left.checked_sub(count).ok_or(KeepError::TooLarge)?;
        packed += 1;
    }
    Ok((packed > 0).then_some(writer.finish()?.into_inner()))
}

/// Opens a file if it is one: no link, and nothing that could make us wait.
fn open_regular(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // A link, or gone by now.
        Err(_) => return Ok(None),
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

/// What the host takes for an id, and what is safe in a path and as an argument.
fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    // A CLI would take one that begins with a dash for a flag.
    (1..=ID_MAX).contains(&id.len()) && id.bytes().all(plain) && !id.starts_with(['.', '-'])
}

fn address(session: &Session, id: &str) -> String {
    format!("{}/sessions/{}/{id}", session.link, session.harness)
}

fn patience(session: &Session) -> Duration {
    Duration::from_millis(session.limits.callback_timeout_ms)
}

/// A directory beside the places of sessions, on the same disk; gone at the end.
struct Aside(PathBuf);

impl Aside {
    fn new(home: &Path) -> io::Result<Aside> {
        let path = home.join(".mayfly").join("session");
        // One that was left there is none of this run's.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(Aside(path))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
