//! A skill as one zip that depends on nothing but its files: sorted, without
//! times, whoever packed it before. So equal files have an equal version,
//! which is the zip's SHA-256.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, Write},
};

use sha2::{Digest, Sha256};
use wire::agent::{BadSkill, SkillVersion, name_and_description};
use zip::{CompressionMethod, DateTime, ZipWriter, result::ZipError, write::SimpleFileOptions};

use super::{
    INSTRUCTIONS,
    folder::{BYTES, BadPath, Folder},
};

/// Most bytes of a `SKILL.md` that are looked at for its front matter.
const HEAD: u64 = 64 << 10;
/// From this size on files are stored as they are: what shrinks too well looks
/// like a bomb to whoever unpacks it.
const STORED_FROM: u64 = 16 << 20;
/// Pieces in which the zip is hashed.
const PIECE: usize = 64 << 10;
/// How programs begin: a script, and an ELF file.
const PROGRAMS: [&[u8]; 2] = [b"#!", b"\x7fELF"];

/// A packed skill.
#[derive(Debug)]
pub(super) struct Bundle {
    /// The zip, at its beginning.
    pub(super) zip: File,
    /// How large it is.
    pub(super) size: u64,
    /// Its SHA-256.
    pub(super) version: SkillVersion,
    /// How many files are in it.
    pub(super) files: usize,
    /// What its own words call it, or else the directory it came in.
    pub(super) name: Option<String>,
    /// What its own words say it is for.
    pub(super) description: Option<String>,
}

/// What was sent is no skill, or could not be packed.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    #[error("it is not a zip that can be read: {0}")]
    NotZip(String),
    #[error("the path `{path}` {reason}")]
    Path { path: String, reason: BadPath },
    #[error("it has more than {} files", super::folder::FILES)]
    TooManyFiles,
    #[error("its files are larger than {BYTES} bytes")]
    TooLarge,
    #[error("it has no {INSTRUCTIONS} at its top, nor in the one directory at its top")]
    NoInstructions,
    #[error("it cannot be packed")]
    Pack(#[from] ZipError),
    #[error("it cannot be kept on disk while it is packed")]
    Spool(#[from] io::Error),
    #[error("its zip has no version")]
    Version(#[from] BadSkill),
}

/// Packs the files of a skill.
pub(super) fn pack(folder: Folder) -> Result<Bundle, BundleError> {
    let (mut folder, directory) = folder.into_skill()?;
    let entries = std::mem::take(&mut folder.entries);
    let mut writer = ZipWriter::new(BufWriter::new(tempfile::tempfile()?));
    let mut words = (None, None);
    for entry in &entries {
        let mut head = Vec::new();
        folder.open(entry)?.take(HEAD).read_to_end(&mut head)?;
        if entry.path == INSTRUCTIONS {
            words = name_and_description(&String::from_utf8_lossy(&head));
        }
        writer.start_file(&entry.path, options(entry.size, &head))?;
        io::copy(&mut folder.open(entry)?, &mut writer)?;
    }
    let mut zip = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    zip.flush()?;
    zip.rewind()?;
    let (size, version) = hash(&mut zip)?;
    // Agents fetch no more than this, packed or not.
    if size > BYTES {
        return Err(BundleError::TooLarge);
    }
    zip.rewind()?;
    let (name, description) = words;
    Ok(Bundle { zip, size, version, files: entries.len(), name: name.or(directory), description })
}

fn hash(zip: &mut File) -> Result<(u64, SkillVersion), BundleError> {
    let mut digest = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut size = 0;
    loop {
        match zip.read(&mut piece)? {
            0 => return Ok((size, SkillVersion::parse(&wire::hex(&digest.finalize()))?)),
            count => {
                digest.update(&piece[..count]);
                size += count as u64;
            }
        }
    }
}

/// Whether a file can be run is told from its first bytes: not every way in
/// has modes.
fn options(size: u64, head: &[u8]) -> SimpleFileOptions {
    let method =
        if size >= STORED_FROM { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    let is_program = PROGRAMS.iter().any(|start| head.starts_with(start));
    SimpleFileOptions::default()
        .compression_method(method)
        .last_modified_time(DateTime::DEFAULT)
        .unix_permissions(if is_program { 0o755 } else { 0o644 })
}
