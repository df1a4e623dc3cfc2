//! Events as lines: what an agent writes, and the log as it is.
//!
//! Both are read leniently, since a later version may have written them: fields
//! that we do not know are passed over, and a type that we do not know is told
//! apart from damage, so that a reader can skip the line.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{AgentLine, Event, LINE_LIMIT, RunEvent, limits::VALUES_LIMIT};

/// Why a line could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// It is too long to look at.
    #[error("the line is longer than {limit} bytes")]
    TooLong {
        /// Bytes allowed.
        limit: usize,
    },
    /// It is made of so many values that they take far more memory than the line.
    #[error("the line holds more than {limit} values")]
    TooManyValues {
        /// Values allowed.
        limit: usize,
    },
    /// There is more than one line.
    #[error("there is a line break inside the line")]
    LineBreak,
    /// It is JSON of another kind, or nothing.
    #[error("the line is not a JSON object")]
    NotAnObject,
    /// It is damaged.
    #[error("the line is not JSON")]
    NotJson,
    /// A field is there twice, and readers would disagree on which one counts.
    #[error("{0:?} is there twice")]
    Duplicate(String),
    /// A field is not there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A field holds something else.
    #[error("`{field}` is not {expected}")]
    Wrong {
        /// The field.
        field: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
    /// Lines of this type are not known here.
    #[error("unknown type {0:?}")]
    UnknownType(String),
    /// It is JSON of a known type, and yet no event.
    #[error("not an event: {0}")]
    NotAnEvent(String),
}

/// An entry of the log as it is: one line, with its line break.
pub fn to_raw(event: &RunEvent) -> String {
    to_line(event)
}

impl RunEvent {
    /// Reads a line of a log of ours, with or without its line break.
    pub fn parse_line(line: &[u8]) -> Result<RunEvent, BadLine> {
        parse(line)
    }
}

impl AgentLine {
    /// Reads a line that an agent wrote, with or without its line break.
    pub fn parse_line(line: &[u8]) -> Result<AgentLine, BadLine> {
        parse(line)
    }

    /// The line that an agent writes, with its line break.
    pub fn to_line(&self) -> String {
        to_line(self)
    }
}

/// The line without its line break, if it is short enough and there is one only.
pub(super) fn one_line(line: &[u8]) -> Result<&[u8], BadLine> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > LINE_LIMIT {
        return Err(BadLine::TooLong { limit: LINE_LIMIT });
    }
    if memchr::memchr2(b'\n', b'\r', line).is_some() {
        return Err(BadLine::LineBreak);
    }
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(BadLine::NotAnObject);
    }
    if separators(line) > VALUES_LIMIT {
        return Err(BadLine::TooManyValues { limit: VALUES_LIMIT });
    }
    Ok(line)
}

/// Commas outside of strings: one less than the values, for each object or list.
fn separators(line: &[u8]) -> usize {
    // Counting all commas is far faster than telling them apart.
    if memchr::memchr_iter(b',', line).count() <= VALUES_LIMIT {
        return 0;
    }
    let mut count = 0;
    let mut position = 0;
    while let Some(found) = memchr::memchr2(b',', b'"', &line[position..]) {
        position += found + 1;
        if line[position - 1] == b',' {
            count += 1;
        } else {
            position += string_length(&line[position..]);
        }
    }
    count
}

/// The length of a string, from behind its first quote to behind its last.
fn string_length(text: &[u8]) -> usize {
    let mut position = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text[position..]) {
        position += found + 1;
        if text[position - 1] == b'"' {
            return position;
        }
        // Whatever is escaped, it is not the end. The line may stop right here.
        position = (position + 1).min(text.len());
    }
    text.len()
}

/// The beginning of a text from outside, short enough for a log.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(120).collect()
}

pub(super) fn to_line(event: &impl Serialize) -> String {
    // Every key is a string and every number is finite, so this cannot fail.
    let mut line = serde_json::to_string(event).unwrap_or_default();
    line.push('\n');
    line
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, BadLine> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "type")]
        kind: String,
    }

    let line = one_line(line)?;
    serde_json::from_slice(line).map_err(|error| {
        if !error.is_data() {
            return BadLine::NotJson;
        }
        match serde_json::from_slice::<Head>(line) {
            Ok(head) if !Event::TYPES.contains(&head.kind.as_str()) => {
                BadLine::UnknownType(excerpt(&head.kind))
            }
            Ok(_) | Err(_) => BadLine::NotAnEvent(excerpt(&error.to_string())),
        }
    })
}

#[cfg(test)]
mod tests;
