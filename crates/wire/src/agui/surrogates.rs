//! Halves of characters: JavaScript cuts its texts anywhere, also within an emoji,
//! and writes what is left as an escape that is no text.

/// What stands for a half: U+FFFD.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// The same JSON with every escape that is half a character replaced.
pub(super) fn whole(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some((&first, behind)) = rest.split_first() {
        let escape = match (first, escaped(rest)) {
            (b'\\', Some(unit)) => unit,
            // Any other escape is two bytes, and the second begins none.
            (b'\\', None) => {
                let (pair, behind) = rest.split_at(rest.len().min(2));
                out.extend_from_slice(pair);
                rest = behind;
                continue;
            }
            _ => {
                out.push(first);
                rest = behind;
                continue;
            }
        };
        let (this, behind) = rest.split_at(6);
        match (escape, escaped(behind)) {
            (0xd800..=0xdbff, Some(0xdc00..=0xdfff)) => {
                let (pair, behind) = rest.split_at(12);
                out.extend_from_slice(pair);
                rest = behind;
            }
            (0xd800..=0xdfff, _) => {
                out.extend_from_slice(REPLACEMENT);
                rest = behind;
            }
            _ => {
                out.extend_from_slice(this);
                rest = behind;
            }
        }
    }
    out
}

/// The unit that `\uXXXX` at the beginning stands for.
fn escaped(json: &[u8]) -> Option<u16> {
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
