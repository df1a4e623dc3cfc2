//! `edit_file`: replaces one piece of a file, which must be the only one.

use serde_json::json;

use super::{Extent, Fields, Returned, ToolError, files};
use crate::session::Session;

/// Largest file that is edited.
const FILE_BYTES: u64 = 16 << 20;

pub(super) async fn edit(
    session: &Session,
    fields: &mut Fields<'_>,
) -> Result<Returned, ToolError> {
    let path = files::path(session, fields.text("path")?);
    let old = fields.text("old")?.to_owned();
    let new = fields.text("new")?.to_owned();
    fields.end()?;
    if old.is_empty() {
        return Err(fields.wrong("old", "is empty"));
    }
    files::aside(move || {
        let (text, extent) = files::read_text(&path, FILE_BYTES)?;
        if extent == Extent::Cut {
            let message = format!("{} is larger than {FILE_BYTES} bytes", path.display());
            return Err(ToolError::new(message));
        }
        let edited = replace_once(&text, &old, &new)?;
        files::write_text(&path, &edited)?;
        Ok(Returned::whole(json!({"path": path, "bytes": edited.len()})))
    })
    .await
}

fn replace_once(text: &str, old: &str, new: &str) -> Result<String, ToolError> {
    // Occurrences that overlap count too: either could be meant.
    let starts = text.char_indices().map(|(at, _)| at);
    let mut found = starts.filter(|at| text[*at..].starts_with(old));
    match (found.next(), found.next()) {
        (None, _) => Err(ToolError::new("edit_file: `old` does not occur in the file")),
        (Some(_), Some(_)) => {
            let message = "edit_file: `old` occurs more than once in the file; add more of the \
                           text around it";
            Err(ToolError::new(message))
        }
        (Some(at), None) => Ok(format!("{}{new}{}", &text[..at], &text[at + old.len()..])),
    }
}

#[cfg(test)]
mod tests {
    use super::replace_once;

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, expected: Option<&str>) {
        assert_eq!(replace_once(text, old, new).ok().as_deref(), expected, "{text:?} {old:?}");
    }

    #[test]
    fn only_what_occurs_once_is_replaced() {
        check("a b c", "b", "x", Some("a x c"));
        check("a b c", "b", "", Some("a  c"));
        check("ä\nö", "ö", "ü\n", Some("ä\nü\n"));
        check("a b c", "d", "x", None);
        check("a b b", "b", "x", None);
        check("aaa", "aa", "x", None);
    }
}
