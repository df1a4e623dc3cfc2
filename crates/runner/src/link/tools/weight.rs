//! JSON from outside, weighed before it is read: a few bytes of it can become
//! hundreds in memory, and what is nested too deeply could not be passed on.

/// What a document is in memory, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    /// Bytes beside those of its texts.
    pub(super) bytes: usize,
    /// Values within each other.
    pub(super) depth: usize,
}

/// Heaviest message from inside: each call holds one.
pub(super) const MESSAGE: usize = 32 << 20;
/// Heaviest value of a tool. An answer that is full of small objects has less.
const VALUE: usize = 64 << 20;
/// Deepest value of a tool. Readers of JSON stop at 128, and it is passed on
/// within others.
const DEPTH: usize = 100;

/// Bytes of a list with something in it, and of an object.
const LIST: usize = 160;
const OBJECT: usize = 640;
/// Bytes of an item, and of a field's name.
const ITEM: usize = 64;
const NAME: usize = 96;

impl Weight {
    /// Weighs what may be JSON; anything else weighs something too.
    pub(super) fn of(document: &[u8]) -> Weight {
        let mut weight = Weight { bytes: 0, depth: 0 };
        let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
        for byte in document {
            if in_text {
                in_text = escaped || *byte != b'"';
                escaped = !escaped && *byte == b'\\';
                continue;
            }
            match byte {
                b'"' => in_text = true,
                b'[' | b'{' => {
                    weight.bytes += if *byte == b'{' { OBJECT } else { LIST };
                    depth += 1;
                    weight.depth = weight.depth.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                b',' => weight.bytes += ITEM,
                b':' => weight.bytes += NAME,
                _ => {}
            }
        }
        weight
    }

    /// Whether a tool may say it.
    pub(super) fn is_bearable(self) -> bool {
        self.bytes <= VALUE && self.depth <= DEPTH
    }
}

#[cfg(test)]
mod tests {
    use super::{DEPTH, MESSAGE, Weight};

    #[test]
    fn only_what_is_outside_of_texts_weighs() {
        let weigh =
            |text: &str| (Weight::of(text.as_bytes()).bytes, Weight::of(text.as_bytes()).depth);
        assert_eq!(weigh("1"), (0, 0));
        assert_eq!(weigh(r#""[{,:\"[\\""#), (0, 0));
        assert_eq!(weigh("[1,2]"), (160 + 64, 1));
        assert_eq!(weigh(r#"{"a":[1],"b":"]"}"#), (640 + 160 + 64 + 2 * 96, 2));
        assert_eq!(weigh("]]]["), (160, 1));
    }

    #[test]
    fn what_is_full_of_ordinary_rows_is_borne() {
        let rows = r#"{"id":12345,"name":"somebody"},"#.repeat((1 << 20) / 32);
        assert!(Weight::of(format!("[{rows}0]").as_bytes()).is_bearable());
        assert!(Weight::of(format!("[0{}]", ",0".repeat(1 << 19)).as_bytes()).is_bearable());
        assert!(!Weight::of("{\"\":0},".repeat((1 << 20) / 7).as_bytes()).is_bearable());
        assert!(!Weight::of("[".repeat(DEPTH + 1).as_bytes()).is_bearable());
        assert!(Weight::of("{\"\":0},".repeat((4 << 20) / 7).as_bytes()).bytes > MESSAGE);
    }
}
