//! How a key is spelled where blobs are kept.
//!
//! Almost always as it is. But a segment of a key may be longer than a name
//! can be: on disk, and with servers of S3 that keep files themselves. And a
//! `#` is what unfinished files on disk are known by. Such a segment is replaced
//! by its beginning and its hash.

use sha2::{Digest, Sha256};

/// A name has at most 255 bytes, and an unfinished one is longer.
const LONGEST: usize = 200;
/// How much of a longer one is kept to be recognised.
const HEAD: usize = 100;

/// The key, with every segment replaced that has to be.
pub(super) fn spell(key: &str) -> String {
    key.split('/').map(spell_segment).collect::<Vec<_>>().join("/")
}

fn spell_segment(segment: &str) -> String {
    if segment.len() <= LONGEST && !segment.contains('#') {
        return segment.to_owned();
    }
    let plain = segment.split('#').next().unwrap_or_default();
    let head = &plain[..plain.floor_char_boundary(HEAD)];
    // Not only digits behind the `#`: this one is finished.
    format!("{head}#h{}", wire::hex(&Sha256::digest(segment)))
}

#[cfg(test)]
mod tests {
    use super::spell;
    use crate::blobs::disk::is_unfinished;

    #[test]
    fn a_key_is_spelled_as_it_is_where_that_is_possible() {
        let key = "assistant-chat-bag/red/chat_1/r%C3%A9sum%C3%A9~1.pdf";
        assert_eq!(spell(key), key);
    }

    #[test]
    fn a_segment_that_cannot_be_a_name_keeps_its_beginning() {
        for segment in ["a#1".to_owned(), "ä".repeat(150), "x".repeat(201), "#".to_owned()] {
            let path = spell(&format!("bag/{segment}"));
            let (directory, name) = path.split_once('/').unwrap();
            assert_eq!(directory, "bag");
            assert!(name.len() <= super::LONGEST && !is_unfinished(name), "{name}");
            assert_ne!(spell(&format!("bag/{segment}2")), path);
            // Nobody can give a file the name of another one's replacement.
            assert_ne!(spell(&path), path);
        }
    }
}
