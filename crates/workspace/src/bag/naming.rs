//! What a file is called: in its row, in the blob store and in the zip.
//!
//! The row keeps the user's name; only what is no name at all is taken away.
//! The storage key is that name percent-encoded, so that nothing a user types
//! becomes a path. The zip has stricter readers: its names differ in more than
//! case, since the file system that they are unpacked on may not tell it.

use std::collections::HashMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use store::Shelf;
use wire::workspace::ExecutionId;

/// Longest name, in bytes: what Linux file systems take.
const LONGEST_NAME: usize = 255;
/// Longest extension that is kept when a name is cut.
const LONGEST_EXTENSION: usize = 32;
/// What a file is called whose client gave it no name.
const NAMELESS: &str = "file";
/// Everything but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The name of an uploaded file: the last part of the path that a client gave,
/// without control characters.
pub(crate) fn clean(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = last.chars().filter(|symbol| !symbol.is_control()).collect();
    match name.trim() {
        "" | "." | ".." => NAMELESS.to_owned(),
        _ => shortened(&name, LONGEST_NAME),
    }
}

/// The same for a name in a form, where browsers escape three characters: see
/// "multipart/form-data encoding algorithm" in the HTML standard.
pub(crate) fn clean_from_form(given: &str) -> String {
    clean(&given.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"))
}

/// The key of the blob of a file.
pub(crate) fn storage_key(workspace: &str, shelf: &Shelf<'_>, name: &str) -> String {
    let segments = match shelf {
        Shelf::Bag(bag) if bag.starts_with(ExecutionId::PREFIX) => {
            vec!["agents-bag", workspace, bag, name]
        }
        Shelf::Bag(bag) => vec!["assistant-chat-bag", workspace, bag, name],
        Shelf::Files => vec!["workspace-files", workspace, name],
    };
    let segments: Vec<String> = segments.into_iter().map(segment).collect();
    segments.join("/")
}

/// One segment of a key: no name makes two of it, or leads upwards.
fn segment(name: &str) -> String {
    // Dots and tildes are never encoded otherwise, so no other name has these.
    match name {
        "" => "%7E".to_owned(),
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        name => utf8_percent_encode(name, ENCODED).to_string(),
    }
}

/// Names for the entries of one zip, each used once.
#[derive(Debug, Default)]
pub(crate) struct ZipNames {
    /// The next number to try, by name in small letters.
    used: HashMap<String, u64>,
}

impl ZipNames {
    /// The entry's name for a file of that name.
    pub(crate) fn take(&mut self, name: &str) -> String {
        let flat: String = name
            .chars()
            .filter(|symbol| !symbol.is_control())
            .map(|symbol| if matches!(symbol, '/' | '\\') { '_' } else { symbol })
            .collect();
        let wanted = match flat.as_str() {
            "" | "." | ".." => NAMELESS.to_owned(),
            flat => shortened(flat, LONGEST_NAME),
        };
        let folded = wanted.to_lowercase();
        let mut number = match self.used.get(&folded) {
            None => {
                self.used.insert(folded, 1);
                return wanted;
            }
            Some(number) => *number,
        };
        loop {
            let numbered = numbered(&wanted, number);
            number += 1;
            let key = numbered.to_lowercase();
            if !self.used.contains_key(&key) {
                self.used.insert(key, 1);
                self.used.insert(folded, number);
                return numbered;
            }
        }
    }
}

/// `report-1.pdf`, and still not too long.
fn numbered(name: &str, number: u64) -> String {
    let suffix = format!("-{number}");
    let name = shortened(name, LONGEST_NAME - suffix.len());
    let (stem, extension) = split(&name);
    format!("{stem}{suffix}{extension}")
}

/// At most `longest` bytes of a name, its extension kept.
fn shortened(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let (stem, extension) = split(name);
    let stem = &stem[..stem.floor_char_boundary(longest - extension.len())];
    format!("{stem}{extension}")
}

/// A name's stem and its extension with the dot, which may be empty.
fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 && name.len() - dot <= LONGEST_EXTENSION => name.split_at(dot),
        Some(_) | None => (name, ""),
    }
}

#[cfg(test)]
mod tests {
    use store::Shelf;

    use super::{LONGEST_NAME, ZipNames, clean, clean_from_form, storage_key};

    #[test]
    fn a_name_stays_as_it_was_but_for_what_is_no_name() {
        let check = |given: &str, expected: &str| assert_eq!(clean(given), expected, "{given:?}");
        for kept in ["report.pdf", "a b.txt", "ünï….md", ".env", "100%.txt", "a%2Fb", "..a", "a\"b"]
        {
            check(kept, kept);
        }
        check("/etc/passwd", "passwd");
        check("C:\\fakepath\\photo.png", "photo.png");
        check("../../up.txt", "up.txt");
        check("a\u{0}b\n\u{7f}.txt", "ab.txt");
        for nothing in ["", "/", "a/", "..", ".", "a/..", "\n", "  ", "\u{0}"] {
            check(nothing, "file");
        }
        assert_eq!(clean_from_form("a%22%0D%0Ab%20.txt"), "a\"b%20.txt");
    }

    #[test]
    fn a_long_name_is_cut_before_its_extension() {
        let cut = clean(&format!("{}.tar", "ü".repeat(300)));
        assert_eq!(cut.len(), 254);
        assert!(cut.ends_with("ü.tar"));
        let cut = clean(&format!("a.{}", "b".repeat(300)));
        assert_eq!(cut.len(), LONGEST_NAME);
    }

    #[test]
    fn a_storage_key_has_its_segments_encoded() {
        let key = |shelf: Shelf<'_>, name: &str| storage_key("team a", &shelf, name);
        assert_eq!(
            key(Shelf::Bag("chat_1"), "report.pdf"),
            "assistant-chat-bag/team%20a/chat_1/report.pdf"
        );
        assert_eq!(key(Shelf::Bag("exec_1"), "ü/b"), "agents-bag/team%20a/exec_1/%C3%BC%2Fb");
        assert_eq!(key(Shelf::Files, ".."), "workspace-files/team%20a/%2E%2E");
        assert_eq!(key(Shelf::Files, "."), "workspace-files/team%20a/%2E");
        assert_eq!(key(Shelf::Files, "%2E"), "workspace-files/team%20a/%252E");
        assert_eq!(storage_key("", &Shelf::Files, "a"), "workspace-files/%7E/a");
        assert_eq!(storage_key("~", &Shelf::Files, "a"), "workspace-files/~/a");
    }

    #[test]
    fn names_in_a_zip_are_flat_and_differ_in_more_than_case() {
        let mut names = ZipNames::default();
        let mut check = |name: &str, expected: &str| assert_eq!(names.take(name), expected);
        check("a.txt", "a.txt");
        check("A.txt", "A-1.txt");
        check("a-1.txt", "a-1-1.txt");
        check("a.TXT", "a-2.TXT");
        check("../b", ".._b");
        check("..", "file");
        check("c\\d\n", "c_d");
        let long = "x".repeat(255);
        check(&long, &long);
        check(&long.to_uppercase(), &format!("{}-1", "X".repeat(253)));
    }
}
