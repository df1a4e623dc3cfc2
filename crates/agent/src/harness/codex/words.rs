//! The command in a command line. Codex runs what its model writes as
//! `/bin/bash -lc '…'`, and a policy speaks of what is between the quotes.

/// The shells that Codex uses.
const SHELLS: [&str; 4] = ["bash", "dash", "sh", "zsh"];

/// What the model wrote, if Codex put a shell around it; else the line itself.
pub(super) fn command(line: &str) -> String {
    match split(line).as_deref() {
        Some([shell, flags, script])
            if matches!(flags.as_str(), "-c" | "-lc") && SHELLS.contains(&program(shell)) =>
        {
            script.clone()
        }
        Some(_) | None => line.to_owned(),
    }
}

/// The name of a program without the path to it.
fn program(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The words of a line, quoted as shells do; nothing when a quote stays open.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        quoted => word.push(quoted),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => match letters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            '\n' => {}
                            plain => word.extend(['\\', plain]),
                        },
                        quoted => word.push(quoted),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next()?),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_shell_around_a_command_is_taken_off() {
        let check = |line: &str, expected: &str| assert_eq!(command(line), expected, "{line}");
        check("/bin/bash -lc 'echo a > b && cat b'", "echo a > b && cat b");
        check("/bin/bash -lc cat", "cat");
        check("bash -c \"echo 'it is' \\$HOME \\\"x\\\"\"", "echo 'it is' $HOME \"x\"");
        check("/usr/bin/zsh -lc 'it'\\''s'", "it's");
        check("/bin/sh -c ''", "");
        check("/bin/bash -lc 'a' extra", "/bin/bash -lc 'a' extra");
        check("/bin/bash -lc 'open", "/bin/bash -lc 'open");
        check("python3 -c 'print(1)'", "python3 -c 'print(1)'");
        check("git status", "git status");
        check("", "");
    }
}
