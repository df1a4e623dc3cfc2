//! `search_files`: a regular expression over text files, line by line.
//!
//! Bounded in every direction: files, their size, matches, the length of a
//! line, time. Symbolic links are not followed, so that there are no circles.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Value, json};

use super::{Extent, Fields, Returned, ToolError, files};
use crate::session::Session;

/// Most matches that are returned.
const MATCHES: usize = 500;
/// Most files and directories that are looked at.
const ENTRIES: usize = 200_000;
/// Largest file that is searched.
const FILE_BYTES: u64 = 8 << 20;
/// Most characters of a line that are shown.
const LINE_CHARS: usize = 300;
/// Largest compiled expression.
const PATTERN_BYTES: usize = 4 << 20;

pub(super) async fn search(
    session: &Session,
    fields: &mut Fields<'_>,
) -> Result<Returned, ToolError> {
    let pattern = fields.text("pattern")?;
    let place = files::path(session, fields.optional_text("path")?.unwrap_or("."));
    fields.end()?;
    let pattern = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
    let pattern = pattern.map_err(|err| fields.wrong("pattern", &format!("is invalid: {err}")))?;
    let base = session.workspace_dir.clone();
    let limit = Duration::from_millis(session.limits.tool_timeout_ms);
    files::aside(move || {
        let mut search = Search {
            pattern,
            base,
            deadline: Instant::now() + limit,
            looked_at: 0,
            matches: Vec::new(),
            extent: Extent::Whole,
        };
        search.walk(place)?;
        Ok(Returned { value: json!({"matches": search.matches}), extent: search.extent })
    })
    .await
}

struct Search {
    pattern: Regex,
    /// Paths below it are shown without it.
    base: PathBuf,
    deadline: Instant,
    looked_at: usize,
    matches: Vec<Value>,
    extent: Extent,
}

impl Search {
    fn walk(&mut self, place: PathBuf) -> Result<(), ToolError> {
        let found = fs::metadata(&place).map_err(|err| files::failed(&place, err))?;
        if !found.is_dir() {
            self.file(&place, found.len());
            return Ok(());
        }
        let mut waiting = vec![place];
        while let Some(directory) = waiting.pop() {
            // Directories that cannot be read, or are gone, hold no matches.
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            let mut paths: Vec<PathBuf> =
                entries.filter_map(|entry| Some(entry.ok()?.path())).take(ENTRIES).collect();
            paths.sort_unstable();
            // The last one is taken up first.
            let mut below = Vec::new();
            for path in paths {
                self.looked_at += 1;
                if self.is_over() {
                    self.extent = Extent::Cut;
                    return Ok(());
                }
                let Ok(found) = fs::symlink_metadata(&path) else { continue };
                if found.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
                    below.push(path);
                } else if found.is_file() {
                    self.file(&path, found.len());
                }
            }
            waiting.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, size: u64) {
        if size > FILE_BYTES {
            return;
        }
        let mut content = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(FILE_BYTES).read_to_end(&mut content));
        let start = &content[..content.len().min(8 << 10)];
        if read.is_err() || start.contains(&0) {
            return;
        }
        let shown = path.strip_prefix(&self.base).unwrap_or(path).to_string_lossy().into_owned();
        for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
            if !self.pattern.is_match(line) {
                continue;
            }
            if self.matches.len() == MATCHES {
                self.extent = Extent::Cut;
                return;
            }
            let line = String::from_utf8_lossy(line);
            let text: String = line.trim_end_matches('\r').chars().take(LINE_CHARS).collect();
            self.matches.push(json!({"path": shown, "line": index + 1, "text": text}));
        }
    }

    fn is_over(&self) -> bool {
        self.looked_at > ENTRIES || self.extent == Extent::Cut || Instant::now() >= self.deadline
    }
}
