//! Bytes to text for line formats that carry JSON strings.

/// Decodes UTF-8 that arrives in pieces. A character cut in two by a piece's
/// end waits for the next piece; bytes that are no UTF-8 become U+FFFD.
#[derive(Debug, Default)]
pub struct TextDecoder {
    pending: Vec<u8>,
}

impl TextDecoder {
    /// The text of everything up to the last whole character.
    pub fn push(&mut self, piece: &[u8]) -> String {
        let joined;
        let input = if self.pending.is_empty() {
            piece
        } else {
            self.pending.extend_from_slice(piece);
            joined = std::mem::take(&mut self.pending);
            &joined
        };
        let whole = input.len() - unfinished(input);
        self.pending.extend_from_slice(&input[whole..]);
        String::from_utf8_lossy(&input[..whole]).into_owned()
    }

    /// What is left when no more will come: one U+FFFD for a cut character.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// How many bytes at the end are the beginning of a character still to come.
fn unfinished(input: &[u8]) -> usize {
    for back in 1..=input.len().min(3) {
        let byte = input[input.len() - back];
        let length = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        return if back < length { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::TextDecoder;

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        let mut decoder = TextDecoder::default();
        assert_eq!(decoder.push(b"a\xffb"), "a\u{fffd}b");
        assert_eq!(decoder.push(b"\xe2\x82"), "");
        assert_eq!(decoder.finish(), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn text_survives_any_split(text in "\\PC{0,60}", cut in 1usize..7) {
            let mut decoder = TextDecoder::default();
            let mut seen: String = text.as_bytes().chunks(cut).map(|p| decoder.push(p)).collect();
            seen += &decoder.finish();
            prop_assert_eq!(seen, text);
        }

        #[test]
        fn little_is_held_back(input in prop::collection::vec(any::<u8>(), 0..50)) {
            let mut decoder = TextDecoder::default();
            decoder.push(&input);
            prop_assert!(decoder.pending.len() <= 3);
        }
    }
}
