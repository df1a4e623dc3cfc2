//! A tarball, plain or gzipped, into a layer.
//!
//! Only the reading is the `tar` crate's: its own unpacking follows links by
//! path and cannot keep owners of links.

use std::{
    cell::Cell,
    ffi::OsStr,
    fs::File,
    io::{self, BufReader, Read, Seek},
    os::unix::ffi::OsStrExt,
    path::Path,
    rc::Rc,
};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry};

use super::{ImportError, Progress};
use crate::templates::layer::{Attributes, Layer, Modified};

/// How tar writes an extended attribute down.
const XATTR_PREFIX: &str = "SCHILY.xattr.";
const GZIP: &[u8] = &[0x1f, 0x8b];
/// What others than gzip begin with, and who unpacks them.
const PACKERS: [(&[u8], &str); 3] =
    [(&[0x28, 0xb5, 0x2f, 0xfd], "zstd"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2")];

/// Writes every entry of the archive into `layer`.
pub(super) fn unpack(
    layer: &mut Layer,
    mut source: File,
    total_bytes: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Progress, ImportError> {
    let mut start = Vec::new();
    source.by_ref().take(8).read_to_end(&mut start).map_err(ImportError::Archive)?;
    source.rewind().map_err(ImportError::Archive)?;
    if let Some((_, packer)) = PACKERS.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(ImportError::Packed { packer });
    }
    let read = Rc::new(Cell::new(0));
    let counted = BufReader::new(Counted { inner: source, read: Rc::clone(&read) });
    let plain: Box<dyn Read> = if start.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(counted))
    } else {
        Box::new(counted)
    };
    let mut done = Progress { total_bytes, ..Progress::default() };
    let mut archive = Archive::new(plain);
    for entry in archive.entries().map_err(ImportError::Archive)? {
        match unpack_entry(layer, &mut entry.map_err(ImportError::Archive)?)? {
            Outcome::Written => done.entries += 1,
            Outcome::Skipped => done.skipped += 1,
            Outcome::Nothing => {}
        }
        done.read_bytes = read.get();
        progress(done);
    }
    // The checksum of a gzipped archive comes after its last entry.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(ImportError::Archive)?;
    done.read_bytes = read.get();
    progress(done);
    Ok(done)
}

enum Outcome {
    Written,
    /// It could not be a file of a sandbox.
    Skipped,
    /// It was a remark of the archive, not a file.
    Nothing,
}

fn unpack_entry(
    layer: &mut Layer,
    entry: &mut Entry<'_, Box<dyn Read>>,
) -> Result<Outcome, ImportError> {
    let kind = entry.header().entry_type();
    if kind.is_pax_global_extensions() {
        return Ok(Outcome::Nothing);
    }
    let attributes = attributes(entry).map_err(ImportError::Archive)?;
    let path = entry.path_bytes().into_owned();
    let link = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
    let (path, link) = (Path::new(OsStr::from_bytes(&path)), OsStr::from_bytes(&link));
    // Archives of the oldest kind have no type for directories, only a slash.
    let ends_in_slash = path.as_os_str().as_bytes().ends_with(b"/");
    if kind.is_dir() || (kind.is_file() && ends_in_slash) {
        layer.directory(path, &attributes)?;
    } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
        layer.file(path, &attributes, entry)?;
    } else if kind.is_symlink() {
        layer.symlink(path, &attributes, link)?;
    } else if kind.is_hard_link() {
        layer.hard_link(path, Path::new(link))?;
    } else {
        return Ok(Outcome::Skipped);
    }
    Ok(Outcome::Written)
}

fn attributes(entry: &mut Entry<'_, Box<dyn Read>>) -> io::Result<Attributes> {
    let mut xattrs = Vec::new();
    if let Some(extensions) = entry.pax_extensions()? {
        for extension in extensions {
            let extension = extension?;
            let name = extension.key().ok().and_then(|key| key.strip_prefix(XATTR_PREFIX));
            if let Some(name) = name {
                xattrs.push((name.to_owned(), extension.value_bytes().to_owned()));
            }
        }
    }
    let header = entry.header();
    let seconds = i64::try_from(header.mtime()?).unwrap_or_default();
    Ok(Attributes {
        uid: header.uid()?,
        gid: header.gid()?,
        mode: header.mode()?,
        modified: Some(Modified { seconds, nanoseconds: 0 }),
        xattrs,
    })
}

/// Counts what was read of the source itself, before it is unpacked.
struct Counted<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.read.set(self.read.get() + length as u64);
        Ok(length)
    }
}
