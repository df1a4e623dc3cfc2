//! Patterns in which `*` stands for anything, nothing and line ends included.

/// Whether a pattern matches the whole of a text.
///
/// The pieces between stars are looked for one after the other, each as early
/// as it can be: what a star has passed over is never looked at again, so that
/// no pattern takes longer than its length and the text's together.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    // The first and the last piece are held fast by the ends of the text.
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(first) else { return false };
    let Some(mut text) = text.strip_suffix(last) else { return false };
    for piece in middle.split('*') {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::matches;

    #[test]
    fn a_star_stands_for_anything_and_the_ends_are_held_fast() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        };
        check("", "", true);
        check("", "a", false);
        check("*", "", true);
        check("**", "any\nthing", true);
        check("git status", "git status", true);
        check("git status", "git status -s", false);
        check("git status", "sudo git status", false);
        check("git *", "git push", true);
        check("git *", "git", false);
        check("git*", "git", true);
        check("* --force", "git push --force", true);
        check("* --force", "git push --force now", false);
        check("git * --force*", "git push --force-with-lease", true);
        check("*rm *", "cd x && rm -rf y", true);
        check("a*a", "a", false);
        check("a*a", "aa", true);
        check("a*b*a", "aba", true);
        check("a*ab", "ab", false);
        check("*ab*ab*", "aab", false);
        check("*ab*ab*", "abxab", true);
        check("a*bc*c", "abcc", true);
        check("a*bc*c", "abc", false);
        check("é*ü", "éaü", true);
        check("a.c", "abc", false);
        check("[a]?", "[a]?", true);
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = "*a".repeat(50_000) + "*b";
        let text = "a".repeat(1 << 20);
        let began = Instant::now();
        assert!(!matches(&pattern, &text));
        assert!(!matches(&("*".repeat(100_000) + "b"), &text));
        assert!(matches(&"*a".repeat(50_000), &text));
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
