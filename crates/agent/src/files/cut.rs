//! Cuts a diff at the end of a line, so that it stays small as JSON.

/// A diff, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) extent: Extent,
}

/// Whether there was more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    Cut,
}

impl Text {
    /// As many lines of a diff as fit into so many bytes of a JSON string.
    pub(super) fn of(diff: &[u8], extent: Extent, most: usize) -> Text {
        let mut text = String::from_utf8_lossy(diff).into_owned();
        let fits = fitting(&text, most);
        let cut = extent == Extent::Cut || fits < text.len();
        if cut {
            // A last line that is not whole is worth nothing, unless it is all.
            let whole_lines = text[..fits].rfind('\n').map_or(fits, |place| place + 1);
            text.truncate(whole_lines);
        }
        Text { text, extent: if cut { Extent::Cut } else { Extent::Whole } }
    }
}

/// How many bytes of a text fit into so many of a JSON string.
fn fitting(text: &str, most: usize) -> usize {
    let mut taken = 0;
    for (place, letter) in text.char_indices() {
        taken += match letter {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            letter => letter.len_utf8(),
        };
        if taken > most {
            return place;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{Extent, Text};

    #[track_caller]
    fn check(diff: &str, most: usize, expected: &str, extent: Extent) {
        let text = Text::of(diff.as_bytes(), Extent::Whole, most);
        assert_eq!(text, Text { text: expected.to_owned(), extent }, "{diff:?}");
        let encoded = serde_json::to_string(&text.text).unwrap();
        assert!(encoded.len() <= most + 2, "{encoded}");
    }

    #[test]
    fn a_diff_is_cut_at_a_line_by_its_size_as_json() {
        check("", 0, "", Extent::Whole);
        check("+a\n+b\n", 8, "+a\n+b\n", Extent::Whole);
        check("+a\n+b\n", 7, "+a\n", Extent::Cut);
        check("+a\n+\u{1}\n", 11, "+a\n", Extent::Cut);
        check("+\"\"\n+ä\n", 12, "+\"\"\n+ä\n", Extent::Whole);
        check("äää", 5, "ää", Extent::Cut);
    }

    #[test]
    fn what_was_cut_before_ends_with_a_whole_line() {
        let text = Text::of(b"+a\n+bc", Extent::Cut, 100);
        assert_eq!(text, Text { text: "+a\n".to_owned(), extent: Extent::Cut });
        let text = Text::of(b"+\xff\n", Extent::Whole, 100);
        assert_eq!(text.text, "+\u{fffd}\n");
    }
}
