//! Sessions of harnesses: a fresh sandbox knows nothing of the last one, so what
//! a harness needs to go on is put away here as a zip and given back.
//!
//! ```text
//! <runs>/sessions/<hash of the team>/<harness>/<session>.zip
//! ```
//!
//! The content is the sandbox's own and is never looked into. It is written
//! beside its place and then renamed, so a reader sees a whole one or none.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures_util::TryStreamExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use sandbox::{Body, empty_body};
use sha2::{Digest, Sha256};
use tokio::{fs, io::AsyncWriteExt};
use wire::agent::Harness;

use super::{
    body::{Allowance, BoxError, Cut, Guarded, Pulse},
    forward::cut_within,
    refusal::Refusal,
};
use crate::look::chunks;

/// Largest archive.
const LARGEST: u64 = 64 << 20;
/// Archives that one run may write: a program inside must not fill the disk.
const WRITES: u32 = 16;
/// Bytes that a team may keep; its oldest sessions make room for the next.
const TEAM: u64 = 4 << 30;
/// Longest silence of whoever sends one.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest id.
const ID: usize = 128;

/// The name a harness gave to its session; safe in a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionId(String);

impl SessionId {
    /// Reads an id from inside.
    pub(super) fn parse(text: &str) -> Option<SessionId> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
        let named = text.bytes().any(|b| b != b'.');
        let good = text.len() <= ID && named && text.bytes().all(plain);
        good.then(|| SessionId(text.to_owned()))
    }
}

/// The sessions of one team, as one run sees them.
#[derive(Clone, Debug)]
pub struct Sessions {
    directory: PathBuf,
    writes: Arc<AtomicU32>,
}

/// Why an archive was not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("it has more than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the run has kept {limit} already")]
    TooMany { limit: u32 },
    #[error("it broke off")]
    Broken,
    #[error("it could not be stored")]
    Disk(#[from] io::Error),
}

impl Sessions {
    /// Those of a team, below the directory of all runs. A team's name is
    /// anybody's text, so its hash is the directory.
    pub fn of_team(runs: &Path, team: &str) -> Sessions {
        let name = wire::hex(&Sha256::digest(team.as_bytes()));
        Sessions { directory: all(runs).join(name), writes: Arc::default() }
    }

    /// Answers a request of the agent's.
    pub(super) async fn answer(
        &self,
        harness: Harness,
        id: &SessionId,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let directory = self.directory.join(harness.name());
        let path = directory.join(format!("{}.zip", id.0));
        if request.method() == Method::GET {
            return read(&path).await;
        }
        // Counted before it is tried: a try writes too.
        if self.writes.fetch_add(1, Ordering::Relaxed) >= WRITES {
            return Err(SessionError::TooMany { limit: WRITES }.into());
        }
        let written = write(&directory, &path, request.into_body()).await;
        if let Err(SessionError::Disk(err)) = &written {
            tracing::error!("a session of a harness was not kept: {err}");
        }
        written?;
        let team = self.directory.clone();
        let made = tokio::task::spawn_blocking(move || make_room(&team, TEAM)).await;
        if let Err(err) = made.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            tracing::warn!("the oldest sessions of a team were not removed: {err}");
        }
        let mut response = Response::new(empty_body());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }
}

async fn read(path: &Path) -> Result<Response<Body>, Refusal> {
    let file = match fs::File::open(path).await {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Err(Refusal::NoSession),
        Err(err) => return Err(SessionError::Disk(err).into()),
    };
    let length = file.metadata().await.map_err(SessionError::Disk)?.len();
    let frames = chunks(file, length).map_ok(|chunk| Frame::data(chunk.into()));
    let body = StreamBody::new(frames.map_err(BoxError::from));
    let mut response = Response::new(body.boxed_unsync());
    let zip = HeaderValue::from_static("application/zip");
    response.headers_mut().insert(header::CONTENT_TYPE, zip);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok(response)
}

/// Leaves nothing behind when it fails, except when this server is killed:
/// `prune` removes that.
async fn write(directory: &Path, path: &Path, body: Incoming) -> Result<(), SessionError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let name: [u8; 8] = rand::random();
    let partial = directory.join(format!("{}.partial", wire::hex(&name)));
    let _cleaned = Cleaned(&partial);
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&partial).await?;
    let allowance = Allowance { bytes: LARGEST, silence: SILENCE };
    let mut body = Guarded::new(body, allowance, Pulse::default());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|err| match cut_within(&*err) {
            Some(Cut::TooLarge { limit }) => SessionError::TooLarge { limit },
            Some(Cut::Silent { .. }) | None => SessionError::Broken,
        })?;
        if let Ok(data) = frame.into_data() {
            file.write_all(&data).await?;
        }
    }
    file.sync_all().await?;
    fs::rename(&partial, path).await?;
    Ok(())
}

/// Removes what was begun, also when whoever sent it hung up.
struct Cleaned<'a>(&'a Path);

impl Drop for Cleaned<'_> {
    fn drop(&mut self) {
        // It may not have been made at all, or have its name by now.
        let _ = std::fs::remove_file(self.0);
    }
}

/// Removes what was last written before `until`. Says what it could not read.
pub(crate) fn prune(runs: &Path, until: SystemTime) -> io::Result<()> {
    let teams = match std::fs::read_dir(all(runs)) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        teams => teams?,
    };
    for team in teams {
        for kept in archives(&team?.path())? {
            if kept.modified < until {
                let _ = std::fs::remove_file(kept.path);
            }
        }
    }
    Ok(())
}

/// Removes the oldest archives of a team until the rest has at most so many bytes.
fn make_room(team: &Path, most: u64) -> io::Result<()> {
    let mut kept = archives(team)?;
    kept.sort_by_key(|archive| std::cmp::Reverse(archive.modified));
    let mut bytes: u64 = 0;
    for archive in kept {
        bytes = bytes.saturating_add(archive.bytes);
        if bytes > most {
            let _ = std::fs::remove_file(archive.path);
        }
    }
    Ok(())
}

struct Archive {
    path: PathBuf,
    modified: SystemTime,
    bytes: u64,
}

/// The archives of a team. One that is removed meanwhile is left out.
fn archives(team: &Path) -> io::Result<Vec<Archive>> {
    let mut found = Vec::new();
    for harness in std::fs::read_dir(team)? {
        for file in std::fs::read_dir(harness?.path())? {
            let file = file?;
            if let Ok(metadata) = file.metadata()
                && let Ok(modified) = metadata.modified()
            {
                found.push(Archive { path: file.path(), modified, bytes: metadata.len() });
            }
        }
    }
    Ok(found)
}

fn all(runs: &Path) -> PathBuf {
    runs.join("sessions")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{SessionId, Sessions, make_room, prune};

    #[test]
    fn an_id_is_safe_in_a_path() {
        for good in ["a", "0a-B_c.1", ".a", "...a", &"a".repeat(128)] {
            assert!(SessionId::parse(good).is_some(), "{good}");
        }
        for bad in ["", ".", "..", "...", "a/b", "a\\b", "a b", "ä", "a\0", &"a".repeat(129)] {
            assert!(SessionId::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let team = tempfile::tempdir().unwrap();
        for (age, harness) in ["codex", "grok-build", "codex"].into_iter().enumerate() {
            let directory = team.path().join(harness);
            std::fs::create_dir_all(&directory).unwrap();
            let file = std::fs::File::create(directory.join(age.to_string())).unwrap();
            file.set_len(10).unwrap();
            let modified = SystemTime::now() - Duration::from_secs(age as u64);
            file.set_modified(modified).unwrap();
        }
        let left = |name: &str| team.path().join(name).exists();
        make_room(team.path(), 30).unwrap();
        assert!(left("codex/2"));
        make_room(team.path(), 29).unwrap();
        assert!(left("codex/0") && left("grok-build/1") && !left("codex/2"));
    }

    #[test]
    fn what_was_written_long_ago_goes() {
        let runs = tempfile::tempdir().unwrap();
        let past = SystemTime::now() - Duration::from_secs(60);
        prune(runs.path(), past).unwrap();
        let directory = Sessions::of_team(runs.path(), "a/../team").directory.join("codex");
        assert!(directory.starts_with(runs.path().join("sessions")));
        std::fs::create_dir_all(&directory).unwrap();
        let kept = directory.join("s.zip");
        std::fs::write(&kept, "zip").unwrap();
        prune(runs.path(), past).unwrap();
        assert!(kept.exists());
        prune(runs.path(), SystemTime::now() + Duration::from_secs(60)).unwrap();
        assert!(!kept.exists());
    }
}
