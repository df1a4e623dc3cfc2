//! A zip that somebody sent, turned into a folder. Nothing it claims is
//! believed: what counts is how many bytes really come, and unpacking ends
//! where a skill's limit does.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
};

use zip::{
    CompressionMethod, ZipReadOptions, read::Config, read::ZipFileEntry, result::ZipError,
    unstable::read::ZipIterable,
};

use super::{
    BundleError,
    folder::{BYTES, BadPath, Entry, FILES, Folder, check_path},
};

/// Bits of a Unix mode that say what kind of file it is, and two kinds.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// Unpacks a zip.
pub(super) fn unpack(archive: File) -> Result<Folder, BundleError> {
    let mut archive = ZipIterable::try_new(BufReader::new(archive), Config::default())
        .map_err(not_zip)?
        .enforce_header_consistency(true);
    // Directories are entries too, and a folder has few without files.
    if archive.len() > 2 * FILES {
        return Err(BundleError::TooManyFiles);
    }
    let files = archive.files().map_err(not_zip)?;
    let mut listed = Vec::new();
    for raw in files.by_ref() {
        listed.push(raw.map_err(not_zip)?);
    }
    let mut folder = Folder { spool: tempfile::tempfile()?, entries: Vec::new() };
    let mut end = 0;
    for raw in listed {
        let Some(path) = path_of_file(&raw)? else { continue };
        if folder.entries.len() >= FILES {
            return Err(BundleError::TooManyFiles);
        }
        let reader = raw.with_reader(files.reader_mut(), ZipReadOptions::new());
        let reader = reader.map_err(not_zip)?;
        folder.spool.seek(SeekFrom::Start(end))?;
        // One byte more than may come tells whether there is one.
        let mut bounded = Broken(reader).take(BYTES - end + 1);
        let size = io::copy(&mut bounded, &mut folder.spool).map_err(|err| broken(err, &path))?;
        folder.entries.push(Entry { path, begins: end, size });
        end += size;
        if end > BYTES {
            return Err(BundleError::TooLarge);
        }
    }
    Ok(folder)
}

/// The path of an entry that is a file; nothing when it is a directory.
fn path_of_file(raw: &ZipFileEntry<'_>) -> Result<Option<String>, BundleError> {
    let name = match raw.name() {
        Ok(name) => name.into_owned(),
        Err(_) => String::from_utf8_lossy(raw.name_raw()).into_owned(),
    };
    let (path, is_directory) = match name.strip_suffix('/') {
        Some(path) => (path, true),
        None => (name.as_str(), false),
    };
    let refuse = |reason| BundleError::Path { path: path.to_owned(), reason };
    check_path(path).map_err(refuse)?;
    match (raw.external_attributes() >> 16 & KIND, is_directory) {
        (0 | DIRECTORY, true) => return Ok(None),
        (0 | REGULAR, false) => {}
        _ => return Err(refuse(BadPath::Special)),
    }
    let known = [CompressionMethod::Stored, CompressionMethod::Deflated];
    if raw.encrypted() || !known.contains(&raw.compression()) {
        let reason = format!("`{path}` is encrypted, or packed in a way other than deflate");
        return Err(BundleError::NotZip(reason));
    }
    Ok(Some(path.to_owned()))
}

/// Marks errors of what is read, so that they are not taken for ours.
struct Broken<R>(R);

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BrokenEntry(io::Error);

impl<R: Read> Read for Broken<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|err| {
            let again = err.kind() == io::ErrorKind::Interrupted;
            if again { err } else { io::Error::other(BrokenEntry(err)) }
        })
    }
}

fn broken(err: io::Error, path: &str) -> BundleError {
    match err.get_ref().and_then(|inner| inner.downcast_ref::<BrokenEntry>()) {
        Some(BrokenEntry(err)) => BundleError::NotZip(format!("`{path}` is broken: {err}")),
        None => BundleError::Spool(err),
    }
}

/// The library's words without its own heading.
fn not_zip(err: ZipError) -> BundleError {
    let text = err.to_string();
    let text = text.strip_prefix("invalid Zip archive: ").unwrap_or(&text);
    BundleError::NotZip(text.to_owned())
}
