//! Names made of a prefix and random digits: what runs, chats and files share.

/// How many digits follow the prefix.
const DIGITS: usize = 24;
/// Crockford's digits: none of them is mistaken for another.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Whether `text` is the prefix and as many digits as there have to be.
pub(crate) fn is_name(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|digit| ALPHABET.contains(&digit))
    })
}

/// Makes a name from random bytes; no bit of them is lost.
pub(crate) fn from_random(prefix: &str, bytes: [u8; 15]) -> String {
    let mut text = String::from(prefix);
    for five in bytes.chunks(5) {
        let group = five.iter().fold(0u64, |group, byte| group << 8 | u64::from(*byte));
        for place in (0..8).rev() {
            let digit = (group >> (place * 5)) & 31;
            text.push(char::from(ALPHABET[digit as usize]));
        }
    }
    text
}
