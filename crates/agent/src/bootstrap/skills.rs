//! Attached skills, onto the disk: `~/.mayfly/skills/{id}/{version}`.
//!
//! The version is the SHA-256 of the zip and is checked before the zip is
//! opened. A version that is there already was checked when it came: it gets
//! its name only once it is whole.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use wire::agent::{AgentLimits, SkillRef};
use wire::run::{ErrorCode, Level};

use super::Home;
use super::download::{DownloadError, download};
use crate::emit::Emitter;
use crate::failure::{Failure, with_cause};
use crate::session::Skill;
use crate::unpack::{UnpackError, unpack};

/// The file that makes a directory a skill.
const MANIFEST: &str = "SKILL.md";

/// Why a skill cannot be had.
#[derive(Debug, thiserror::Error)]
enum SkillError {
    #[error("it is attached twice")]
    Twice,
    #[error("field `url` is missing")]
    NoUrl,
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error("the SHA-256 of the zip is {0}, not its version")]
    OtherHash(String),
    #[error("{}", with_cause(.0))]
    Unpack(#[from] UnpackError),
    #[error("cannot be kept: {0}")]
    Keep(#[from] io::Error),
}

/// Fetches the attached skills, those that are not there yet.
pub(super) async fn fetch_all(
    attached: &[SkillRef],
    home: &Home,
    limits: &AgentLimits,
    out: &Emitter,
) -> Result<Vec<Skill>, Failure> {
    let mut skills = Vec::with_capacity(attached.len());
    for (place, skill) in attached.iter().enumerate() {
        let twice = attached[..place].iter().any(|other| other.id == skill.id);
        let fetched = if twice { Err(SkillError::Twice) } else { fetch(skill, home, limits).await };
        let directory = fetched.map_err(|err| {
            let message = format!("GET /skills/{}/{}: {err}", skill.id, skill.version);
            Failure::new(ErrorCode::BootstrapFailed, message)
        })?;
        skills.push(Skill {
            id: skill.id.to_string(),
            name: skill.shown_name().to_owned(),
            directory,
        });
    }
    match skills.len() {
        0 => {}
        1 => out.log(Level::Info, "Loaded 1 skill"),
        count => out.log(Level::Info, format!("Loaded {count} skills")),
    }
    Ok(skills)
}

async fn fetch(skill: &SkillRef, home: &Home, limits: &AgentLimits) -> Result<PathBuf, SkillError> {
    let shelf = home.directory(&format!("skills/{}", skill.id))?;
    let kept = shelf.join(skill.version.as_str());
    if kept.is_dir() {
        return Ok(root_of(&kept));
    }
    let url = skill.url.as_deref().ok_or(SkillError::NoUrl)?;
    let download = download(url, &shelf, limits.skill_bytes, limits).await?;
    if download.sha256 != skill.version.as_str() {
        return Err(SkillError::OtherHash(download.sha256));
    }
    let unfinished = shelf.join(format!(".{}", skill.version));
    remove_tree(&unfinished)?;
    unpack(&download.file, &unfinished, limits.skill_bytes)?;
    fs::rename(&unfinished, &kept)?;
    Ok(root_of(&kept))
}

/// Where the skill is: many zips hold one directory that holds the rest.
fn root_of(unpacked: &Path) -> PathBuf {
    let direct = unpacked.join(MANIFEST).is_file();
    let mut entries = fs::read_dir(unpacked).into_iter().flatten().flatten();
    match (direct, entries.next(), entries.next()) {
        (false, Some(only), None) if only.path().join(MANIFEST).is_file() => only.path(),
        _ => unpacked.to_owned(),
    }
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(err) if err.kind() != ErrorKind::NotFound => Err(err),
        Ok(()) | Err(_) => Ok(()),
    }
}
