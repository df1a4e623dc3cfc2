//! What the workspace says it stored. It is compared with what was sent: a
//! file that arrived otherwise is not written back.

use serde::Deserialize;
use serde_json::Value;
use wire::run::UploadedFile;

use super::collect::Asset;
use crate::json::{self, Wrong};

pub(super) use crate::bootstrap::reason;

/// Longest id, name, type or key that is passed on.
const LONGEST: usize = 1024;

/// An answer that does not say what was stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("its answer cannot be read: {0}")]
    Unreadable(Wrong),
    #[error("its answer names {answered} files, and {sent} were sent")]
    Count { answered: usize, sent: usize },
    #[error("its answer has a field `files[{place}].{field}` of more than {LONGEST} bytes")]
    TooLong { place: usize, field: &'static str },
    #[error("stored other bytes as `{0}`")]
    OtherBytes(String),
}

#[derive(Deserialize)]
struct Answer {
    files: Vec<UploadedFile>,
}

/// Reads the answer to the upload of `sent`, as it is and as events show it.
pub(super) fn read(body: &[u8], sent: &[Asset]) -> Result<(Value, Vec<UploadedFile>), AnswerError> {
    let whole: Value = json::parse(body).map_err(AnswerError::Unreadable)?;
    let Answer { files } = json::parse(body).map_err(AnswerError::Unreadable)?;
    if files.len() != sent.len() {
        return Err(AnswerError::Count { answered: files.len(), sent: sent.len() });
    }
    for (place, file) in files.iter().enumerate() {
        let fields = [
            ("id", &file.id),
            ("name", &file.name),
            ("mimeType", &file.mime_type),
            ("sha256", &file.sha256),
            ("storageKey", &file.storage_key),
        ];
        if let Some((field, _)) = fields.into_iter().find(|(_, text)| text.len() > LONGEST) {
            return Err(AnswerError::TooLong { place, field });
        }
    }
    // By content: the workspace may have chosen other names and another order.
    let mut unmatched: Vec<&Asset> = sent.iter().collect();
    for file in &files {
        let same = |asset: &&Asset| {
            asset.size == file.size && asset.sha256.eq_ignore_ascii_case(&file.sha256)
        };
        match unmatched.iter().position(same) {
            Some(place) => drop(unmatched.swap_remove(place)),
            None => return Err(AnswerError::OtherBytes(file.name.clone())),
        }
    }
    Ok((whole, files))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::{Asset, read};

    fn file(sha256: &str, size: u64) -> Value {
        json!({"id": "f1", "name": "a-1.txt", "mimeType": "text/plain", "size": size,
               "sha256": sha256, "storageKey": "k", "extra": true})
    }

    #[track_caller]
    fn check(answer: Value, expected: Result<usize, &str>) {
        let asset = |sha256: &str, size| Asset {
            path: PathBuf::new(),
            name: "a".into(),
            size,
            sha256: sha256.into(),
        };
        let sent = [asset("aa", 1), asset("bb", 2)];
        let read = read(answer.to_string().as_bytes(), &sent);
        match (read, expected) {
            (Ok((whole, files)), Ok(count)) => {
                assert_eq!(files.len(), count);
                assert_eq!(whole, answer);
            }
            (Err(err), Err(part)) => assert!(err.to_string().contains(part), "{err}"),
            (other, _) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_has_to_name_the_bytes_that_were_sent() {
        check(json!({"files": [file("BB", 2), file("aa", 1)]}), Ok(2));
        check(json!({"files": [file("aa", 1), file("aa", 1)]}), Err("other bytes as `a-1.txt`"));
        check(json!({"files": [file("aa", 1), file("bb", 3)]}), Err("other bytes"));
        check(json!({"files": [file("aa", 1)]}), Err("names 1 files, and 2 were sent"));
        check(json!({"files": [{}]}), Err("field `files[0]"));
        check(json!({"ok": true}), Err("missing field `files`"));
        let long = file(&"a".repeat(1025), 1);
        check(json!({"files": [file("aa", 1), long]}), Err("`files[1].sha256`"));
    }
}
