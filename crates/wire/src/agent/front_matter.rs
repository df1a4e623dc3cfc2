//! `name` and `description` of a `SKILL.md`, from the YAML at its beginning.
//!
//! Only what skills use is understood: plain and quoted texts, and texts over
//! several lines after `>` or `|`. Anything else is left out. Who stores a skill
//! and who runs it read it here, so that both give it the same name.

/// Longest text of a field.
const CHARS: usize = 1024;

/// The two fields, each if it is there.
pub fn name_and_description(head: &str) -> (Option<String>, Option<String>) {
    let mut lines = head.trim_start_matches('\u{feff}').lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return (None, None);
    }
    let matter: Vec<&str> = lines.take_while(|line| line.trim_end() != "---").collect();
    (field(&matter, "name"), field(&matter, "description"))
}

fn field(matter: &[&str], name: &str) -> Option<String> {
    let place = matter
        .iter()
        .position(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
    let first = matter[place][name.len() + 1..].trim();
    // A text goes on in the lines that are indented below it.
    let indented = |line: &&&str| line.starts_with([' ', '\t']) || line.trim().is_empty();
    let below = matter[place + 1..].iter().take_while(indented).map(|line| line.trim());
    let block = matches!(first, "" | ">" | "|" | ">-" | "|-" | ">+" | "|+");
    let own = if block { "" } else { first };
    let words: Vec<&str> =
        std::iter::once(own).chain(below).filter(|line| !line.is_empty()).collect();
    let text = unquoted(&words.join(" "));
    let text: String = text.chars().take(CHARS).collect();
    Some(text).filter(|text| !text.is_empty())
}

fn unquoted(text: &str) -> String {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inner) = inner('"') {
        return inner.replace("\\\"", "\"").replace("\\\\", "\\");
    }
    match inner('\'') {
        Some(inner) => inner.replace("''", "'"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::name_and_description;

    #[track_caller]
    fn check(head: &str, name: Option<&str>, description: Option<&str>) {
        let (found_name, found_description) = name_and_description(head);
        assert_eq!(
            (found_name.as_deref(), found_description.as_deref()),
            (name, description),
            "{head}"
        );
    }

    #[test]
    fn the_usual_front_matter_is_read() {
        check(
            "---\nname: pdf\ndescription: Reads PDFs: all of them.\n---\n# PDF",
            Some("pdf"),
            Some("Reads PDFs: all of them."),
        );
        check(
            "---\r\nname: \"p\\\"f\"\r\ndescription: 'it''s'\r\n---\r\n",
            Some("p\"f"),
            Some("it's"),
        );
        check(
            "---\ndescription: >-\n  One\n  two.\n\n  Three.\nlicense: MIT\nname: x\n---\n",
            Some("x"),
            Some("One two. Three."),
        );
        check("---\ndescription: >-\n  One\n  two.\nname: 'x'\n---\n", Some("x"), Some("One two."));
        check("---\nname: x\ndescription: goes\n  on\n---\n", Some("x"), Some("goes on"));
    }

    #[test]
    fn whatever_else_is_there_gives_nothing() {
        check("", None, None);
        check("# Title\nname: x\n", None, None);
        check("---\nnames: x\n---\nname: y\n", None, None);
        check("---\nname:\ndescription:\n---\n", None, None);
    }
}
