//! Finds the fenced shell blocks of a prompt.

/// The contents of all blocks fenced as `sh`, `bash` or `shell`, in order. A
/// block that is never closed reaches to the end.
pub(super) fn shell_blocks(prompt: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<Open> = None;
    for line in prompt.lines() {
        match &mut open {
            None => open = Open::by(line),
            Some(block) if block.is_closed_by(line) => {
                blocks.extend(open.take().and_then(Open::taken))
            }
            Some(block) => {
                block.content.push_str(line);
                block.content.push('\n');
            }
        }
    }
    blocks.extend(open.and_then(Open::taken));
    blocks
}

/// A block that has begun.
struct Open {
    /// How many backticks opened it: fewer do not close it.
    ticks: usize,
    language: Language,
    content: String,
}

enum Language {
    Shell,
    Other,
}

impl Open {
    fn by(line: &str) -> Option<Open> {
        let line = line.trim_start();
        let ticks = line.len() - line.trim_start_matches('`').len();
        if ticks < 3 {
            return None;
        }
        let language = match line[ticks..].split_whitespace().next() {
            Some("sh" | "bash" | "shell") => Language::Shell,
            Some(_) | None => Language::Other,
        };
        Some(Open { ticks, language, content: String::new() })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.ticks && line.bytes().all(|byte| byte == b'`')
    }

    fn taken(self) -> Option<String> {
        match self.language {
            Language::Shell if !self.content.trim().is_empty() => Some(self.content),
            Language::Shell | Language::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shell_blocks;

    #[track_caller]
    fn check(prompt: &str, expected: &[&str]) {
        assert_eq!(shell_blocks(prompt), expected, "{prompt:?}");
    }

    #[test]
    fn shell_blocks_are_found_and_others_are_not() {
        check("no block", &[]);
        check("Do\n```sh\nls\n```\nthen\n```bash\npwd\ndate\n```\n", &["ls\n", "pwd\ndate\n"]);
        check("```shell title\nls\n```", &["ls\n"]);
        check("```python\nprint(1)\n```", &[]);
        check("```\nls\n```", &[]);
        check("```sh\n\n```", &[]);
        check("  ```sh\n  ls\n  ```", &["  ls\n"]);
        check("```sh\nls", &["ls\n"]);
        check("````sh\necho '```'\n```\n````", &["echo '```'\n```\n"]);
        check("```text\n```sh\n```\n```sh\nls\n```", &["ls\n"]);
        check("```sh\r\nls\r\n```\r\n", &["ls\n"]);
    }
}
