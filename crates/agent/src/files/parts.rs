//! A difference of several files, cut into those of each of them.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::cut::Extent;

/// Differences by path.
pub(super) type Parts = BTreeMap<PathBuf, (Vec<u8>, Extent)>;

/// How each part begins. Lines of content have a mark in front, so none of them
/// can.
const HEAD: &[u8] = b"diff --git ";

/// Reads what `--patch-with-raw -z` writes: a record for each file, and then
/// their parts in the same order. Of an answer that was cut the last part is.
pub(super) fn parse(bytes: &[u8], extent: Extent) -> Parts {
    let (records, mut text) = records(bytes);
    let mut found = Parts::new();
    for (path, heads) in records {
        let mut part = Vec::new();
        for _ in 0..heads {
            let (one, rest) = first_part(text);
            part.extend_from_slice(one);
            text = rest;
        }
        let cut = text.is_empty() && extent == Extent::Cut;
        found.insert(path, (part, if cut { Extent::Cut } else { Extent::Whole }));
    }
    found
}

/// What is said of an untracked file that is too large to compare.
pub(super) fn of_large_file(path: &Path, was_there: bool) -> Vec<u8> {
    let path = path.to_string_lossy();
    let (old, new) = (quoted(&format!("a/{path}")), quoted(&format!("b/{path}")));
    let text = match was_there {
        true => format!("diff --git {old} {new}\nBinary files {old} and {new} differ\n"),
        false => format!(
            "diff --git {old} {new}\nnew file mode 100644\n\
             Binary files /dev/null and {new} differ\n"
        ),
    };
    text.into_bytes()
}

/// A name as git writes it: one that could be taken for more than a name is put
/// into quotes.
fn quoted(name: &str) -> String {
    if !name.contains(|letter: char| letter.is_control() || letter == '"' || letter == '\\') {
        return name.to_owned();
    }
    let escaped = name.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        '\0'..='\u{1f}' | '\u{7f}' => format!("\\{:03o}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// The paths, each with the number of parts that it has, and what comes after.
fn records(bytes: &[u8]) -> (Vec<(PathBuf, usize)>, &[u8]) {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(record) = rest.strip_prefix(b":") {
        let Some((status, after)) = until_zero(record) else { break };
        let Some((path, after)) = until_zero(after) else { break };
        // A file that became a link is deleted and created.
        let heads = if status.ends_with(b"T") { 2 } else { 1 };
        found.push((PathBuf::from(std::ffi::OsStr::from_bytes(path)), heads));
        rest = after;
    }
    (found, rest.strip_prefix(b"\0").unwrap_or(rest))
}

fn until_zero(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

/// The part at the beginning, and what comes after.
fn first_part(text: &[u8]) -> (&[u8], &[u8]) {
    let mut place = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if place > 0 && line.starts_with(HEAD) {
            break;
        }
        place += line.len();
    }
    text.split_at(place)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Extent, of_large_file, parse};

    const ANSWER: &[u8] = b":000000 100644 0000 7898 A\0a b\0:100644 120000 1111 2222 T\0l\0\0\
        diff --git a/a b b/a b\nnew\n+diff --git x\ndiff --git a/l b/l\n-x\n\
        diff --git a/l b/l\n+y\n";

    #[test]
    fn parts_belong_to_the_records_in_their_order() {
        let parts = parse(ANSWER, Extent::Whole);
        let of = |path: &str| String::from_utf8(parts[Path::new(path)].0.clone()).unwrap();
        assert_eq!(of("a b"), "diff --git a/a b b/a b\nnew\n+diff --git x\n");
        assert_eq!(of("l"), "diff --git a/l b/l\n-x\ndiff --git a/l b/l\n+y\n");
        assert_eq!(parts[Path::new("l")].1, Extent::Whole);
    }

    #[test]
    fn the_name_of_a_large_file_is_not_more_than_a_name() {
        let text = |path: &str| String::from_utf8(of_large_file(Path::new(path), true)).unwrap();
        let plain = "diff --git a/x y b/x y\nBinary files a/x y and b/x y differ\n";
        assert_eq!(text("x y"), plain);
        let forged = text("x\ndiff --git a/\"b\u{1}");
        assert_eq!(forged.lines().count(), 2, "{forged}");
        assert!(forged.starts_with(r#"diff --git "a/x\ndiff --git a/\"b\001" "b/x\n"#), "{forged}");
    }

    #[test]
    fn any_beginning_of_an_answer_is_read_without_harm() {
        for length in 0..ANSWER.len() {
            let parts = parse(&ANSWER[..length], Extent::Cut);
            assert!(parts.values().last().is_none_or(|(_, extent)| *extent == Extent::Cut));
        }
        assert!(parse(b"", Extent::Whole).is_empty());
    }
}
