//! One entry of a zip, checked by itself: its name, its kind and its claims.

use zip::CompressionMethod;
use zip::read::ZipFileEntry;

use super::{Reason, UnpackError};

/// Longest relative path, well below what the kernel takes.
const MAX_PATH: usize = 1024;
/// Longest file name: what Linux file systems take.
const MAX_NAME: usize = 255;
/// Most bytes that one packed byte may become, in entries large enough to hurt.
/// Deflate itself ends at about 1032.
const MAX_RATIO: u64 = 200;
/// From this size on the ratio counts.
const RATIO_FROM: u64 = 16 << 20;
/// Bytes of a local header before the name; see APPNOTE.TXT 4.3.7.
const LOCAL_HEADER: u64 = 30;
/// Bits of a Unix mode that say what kind of file it is, and three kinds.
const KIND: u32 = 0o170_000;
const KIND_DIRECTORY: u32 = 0o040_000;
const KIND_REGULAR: u32 = 0o100_000;
const KIND_SYMLINK: u32 = 0o120_000;

/// An entry that may be unpacked, as far as it alone can tell.
#[derive(Debug)]
pub(super) struct Entry {
    /// Path below the directory: no dots, no empty parts, no slash at either end.
    pub(super) path: String,
    pub(super) is_directory: bool,
    is_executable: bool,
    /// What it claims to unpack to.
    pub(super) size: u64,
    /// Where its bytes lie, at least.
    pub(super) begins: u64,
    pub(super) ends: u64,
}

impl Entry {
    pub(super) fn read(raw: &ZipFileEntry<'_>) -> Result<Entry, UnpackError> {
        let name = match raw.name() {
            Ok(name) => name.into_owned(),
            Err(_) => String::from_utf8_lossy(raw.name_raw()).into_owned(),
        };
        let refuse = |reason| UnpackError::Entry { name: shown(&name), reason };
        let path = relative_path(&name).map_err(refuse)?.to_owned();
        let mode = raw.external_attributes() >> 16;
        let is_directory = name.ends_with('/');
        match (mode & KIND, is_directory) {
            (0 | KIND_REGULAR, false) | (0 | KIND_DIRECTORY, true) => {}
            (KIND_SYMLINK, _) => return Err(refuse(Reason::Symlink)),
            _ => return Err(refuse(Reason::Special)),
        }
        if raw.encrypted() {
            return Err(refuse(Reason::Encrypted));
        }
        if ![CompressionMethod::Stored, CompressionMethod::Deflated].contains(&raw.compression()) {
            return Err(refuse(Reason::Method));
        }
        let (size, packed) = (raw.size(), raw.compressed_size());
        if is_directory && size > 0 {
            return Err(refuse(Reason::FileAndDirectory));
        }
        if size > RATIO_FROM && size / MAX_RATIO > packed {
            return Err(refuse(Reason::Ratio(MAX_RATIO)));
        }
        let begins = raw.header_start();
        let header = LOCAL_HEADER + u64::try_from(raw.name_raw().len()).unwrap_or(u64::MAX);
        let ends = begins.saturating_add(header).saturating_add(packed);
        Ok(Entry { path, is_directory, is_executable: mode & 0o111 != 0, size, begins, ends })
    }

    /// The mode of the file: whether it can be run is all that is kept.
    pub(super) fn mode(&self) -> u32 {
        if self.is_executable { 0o755 } else { 0o644 }
    }

    pub(super) fn refuse(&self, reason: Reason) -> UnpackError {
        UnpackError::Entry { name: shown(&self.path), reason }
    }
}

/// The path of a name, when following it stays below where it starts.
fn relative_path(name: &str) -> Result<&str, Reason> {
    if name.contains('\\') {
        return Err(Reason::Backslash);
    }
    if name.starts_with('/') {
        return Err(Reason::Absolute);
    }
    let path = name.strip_suffix('/').unwrap_or(name);
    if path.is_empty() || path.len() > MAX_PATH || path.chars().any(char::is_control) {
        return Err(Reason::BadName);
    }
    for part in path.split('/') {
        match part {
            ".." => return Err(Reason::Parent),
            "" | "." => return Err(Reason::BadName),
            part if part.len() > MAX_NAME => return Err(Reason::BadName),
            _ => {}
        }
    }
    Ok(path)
}

/// A name as it may be shown: hostile names hold anything.
fn shown(name: &str) -> String {
    let shown: String = name.escape_debug().take(200).collect();
    if shown.chars().count() == 200 { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::{Reason, relative_path, shown};

    #[test]
    fn a_name_stays_below_its_directory_or_is_refused() {
        let check = |name: &str, expected: Result<&str, Reason>| {
            assert_eq!(relative_path(name), expected, "{name:?}");
        };
        check("a.txt", Ok("a.txt"));
        check("a/b/c", Ok("a/b/c"));
        check("a/", Ok("a"));
        check("ä/…", Ok("ä/…"));
        check("..a/b..", Ok("..a/b.."));
        check("C:", Ok("C:"));
        for parent in ["..", "../a", "a/../b", "a/..", "a/b/../../../c", "../"] {
            check(parent, Err(Reason::Parent));
        }
        for absolute in ["/", "/etc/passwd", "//a"] {
            check(absolute, Err(Reason::Absolute));
        }
        for backslash in ["a\\b", "..\\a", "C:\\a", "\\"] {
            check(backslash, Err(Reason::Backslash));
        }
        let long = "a".repeat(256);
        let deep = "a/".repeat(600);
        for bad in ["", ".", "./a", "a/./b", "a//b", "a\0b", "a\nb", "a\u{7f}", &long, &deep] {
            check(bad, Err(Reason::BadName));
        }
    }

    #[test]
    fn a_name_is_shown_without_harm() {
        assert_eq!(shown("a\u{1b}[2J\n"), "a\\u{1b}[2J\\n");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), 201);
    }
}
