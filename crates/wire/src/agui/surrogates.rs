//! Halves of characters: JavaScript cuts its texts anywhere, also within an emoji,
//! and writes what is left as an escape that is no text.

/// What stands for a half: U+FFFD.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// The same JSON with every escape that is half a character replaced.
pub(super) fn whole(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (plain, escaped) = rest.split_at(at);
        let next = escaped.get(6..).and_then(unit);
        let (length, is_half) = match (unit(escaped), next) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, false),
            (Some(0xd800..=0xdfff), _) => (6, true),
            (Some(_), _) => (6, false),
            // Any other escape is two bytes, and the second begins none.
            (None, _) => (escaped.len().min(2), false),
        };
        let (escape, behind) = escaped.split_at(length);
        out.extend_from_slice(plain);
        out.extend_from_slice(if is_half { REPLACEMENT } else { escape });
        rest = behind;
    }
    out.extend_from_slice(rest);
    out
}

/// The unit that `\uXXXX` at the beginning stands for.
fn unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn only_halves_are_replaced() {
        let check = |json: &str, expected: &str| {
            assert_eq!(String::from_utf8(whole(json.as_bytes())).unwrap(), expected);
        };
        check(r#""cut \ud83d""#, r#""cut \ufffd""#);
        check(r#""\ude00\ud83d\ud83d\ude00""#, r#""\ufffd\ufffd\ud83d\ude00""#);
        for same in [r#""\ud83d\ude00 \u00e4 \n""#, r#""\\ud83d""#, r#""\\\\""#, "\"\\", "\\u12"] {
            check(same, same);
        }
    }
}
