//! The names under which models see tools of MCP servers.

/// Longest name that all providers take.
const CHARS: usize = 64;

/// `mcp__<server>__<tool>`, in letters that all providers take. A name that is
/// taken gets a number.
pub(super) fn offered(server: &str, tool: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = format!("mcp__{}__{}", plain(server), plain(tool));
    // All letters are of one byte by now.
    name.truncate(CHARS);
    let mut number = 2;
    let mut candidate = name.clone();
    while taken(&candidate) {
        let suffix = format!("_{number}");
        candidate = format!("{}{suffix}", &name[..name.len().min(CHARS - suffix.len())]);
        number += 1;
    }
    candidate
}

fn plain(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    text.chars().take(CHARS).map(|letter| if plain(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::offered;

    #[test]
    fn names_are_plain_short_and_unique() {
        let mut known: Vec<String> = Vec::new();
        let mut check = |server: &str, tool: &str, expected: &str| {
            let name = offered(server, tool, |name| known.iter().any(|other| other == name));
            assert_eq!(name, expected);
            assert!(name.len() <= 64);
            known.push(name);
        };
        check("git", "log", "mcp__git__log");
        check("my server", "a.b/ü", "mcp__my_server__a_b__");
        check("git", "log", "mcp__git__log_2");
        check("git", "log", "mcp__git__log_3");
        let long = "x".repeat(90);
        check("s", &long, &format!("mcp__s__{}", "x".repeat(56)));
        check("s", &long, &format!("mcp__s__{}_2", "x".repeat(54)));
    }
}
