//! Cuts results to what a line of the log, and a model, should hold.
//!
//! What counts is the size as JSON: a mebibyte of control characters is six of
//! them on the wire.

use serde_json::{Map, Value};

use super::Extent;

/// Longest error message.
const ERROR_BYTES: usize = 4 << 10;
/// Stands where something was cut.
const MARK: &str = "\n[… cut here]";
/// What is left for the rest of a value when one text of it is cut.
const LEAST: usize = 64;

/// The value itself if it is small enough, otherwise as much of it as is. In
/// an object texts are cut, the longest first; what cannot be cut so becomes a
/// text.
pub(crate) fn fit(value: Value, limit: usize) -> (Value, Extent) {
    if size(&value) <= limit {
        return (value, Extent::Whole);
    }
    let cut = match value {
        Value::String(text) => Value::String(cut(&text, limit)),
        Value::Object(mut fields) => match fit_fields(&mut fields, limit) {
            Extent::Whole => Value::Object(fields),
            Extent::Cut => Value::String(cut(&Value::Object(fields).to_string(), limit)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Value::String(cut(&value.to_string(), limit))
        }
    };
    (cut, Extent::Cut)
}

/// An error message of bearable length.
pub(super) fn shorten(message: &str) -> String {
    if message.len() <= ERROR_BYTES { message.to_owned() } else { cut(message, ERROR_BYTES) }
}

/// Cuts texts of an object until it fits. `Cut` says that it never will.
fn fit_fields(fields: &mut Map<String, Value>, limit: usize) -> Extent {
    // Every round either ends it or makes the longest text a short one.
    for _ in 0..=fields.len() {
        let over = fields_size(fields).saturating_sub(limit);
        if over == 0 {
            return Extent::Whole;
        }
        let texts = fields.values_mut().filter_map(|value| match value {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        });
        let Some(longest) = texts.max_by_key(|text| written(text)) else { return Extent::Cut };
        let room = written(longest).saturating_sub(over).max(LEAST);
        *longest = cut(longest, room);
    }
    if fields_size(fields) <= limit { Extent::Whole } else { Extent::Cut }
}

/// The beginning of a text that has at most that many bytes as JSON, its quotes
/// and the mark included.
fn cut(text: &str, limit: usize) -> String {
    let room = limit.saturating_sub(written(MARK));
    let mut used = 0;
    let end = text.char_indices().find(|(_, letter)| {
        used += written_letter(*letter);
        used > room
    });
    let end = end.map_or(text.len(), |(at, _)| at);
    format!("{}{MARK}", &text[..end])
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => written(text),
        Value::Object(fields) => fields_size(fields),
        Value::Array(values) => 2 + values.iter().map(|value| size(value) + 1).sum::<usize>(),
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => number.to_string().len(),
    }
}

fn fields_size(fields: &Map<String, Value>) -> usize {
    2 + fields.iter().map(|(name, value)| written(name) + size(value) + 2).sum::<usize>()
}

/// Bytes of a text as JSON, with its quotes.
fn written(text: &str) -> usize {
    2 + text.chars().map(written_letter).sum::<usize>()
}

fn written_letter(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Extent, fit, size};

    #[track_caller]
    fn check(value: Value, extent: Extent) -> Value {
        let limit = 200;
        let (fitted, found) = fit(value.clone(), limit);
        assert_eq!(found, extent, "{value}");
        assert!(fitted.to_string().len() <= limit, "{fitted}");
        if extent == Extent::Whole {
            assert_eq!(fitted, value);
        }
        fitted
    }

    #[test]
    fn results_are_cut_to_their_size_on_the_wire() {
        check(json!("short"), Extent::Whole);
        check(json!({"a": 1, "b": [1, 2, null, true]}), Extent::Whole);
        check(json!("x".repeat(300)), Extent::Cut);
        check(json!("\u{1}".repeat(100)), Extent::Cut);
        check(json!("é\"\n".repeat(100)), Extent::Cut);
        check(json!((0..200).collect::<Vec<u32>>()), Extent::Cut);
        check(json!({"deep": {"text": "x".repeat(300)}}), Extent::Cut);
        let many: serde_json::Map<String, Value> =
            (0..50).map(|n| (format!("k{n}"), json!("value"))).collect();
        check(Value::Object(many), Extent::Cut);
    }

    #[test]
    fn an_object_keeps_its_short_fields() {
        let fitted =
            check(json!({"exit_code": 3, "stdout": "x".repeat(500), "stderr": "no"}), Extent::Cut);
        assert_eq!(fitted["exit_code"], 3);
        assert_eq!(fitted["stderr"], "no");
        assert!(fitted["stdout"].as_str().unwrap().ends_with("cut here]"));
    }

    #[test]
    fn sizes_are_never_guessed_too_small() {
        for value in
            [json!(null), json!(-1.5e300), json!("\u{7f}\u{8}\\/"), json!([[], {}, {"": ""}])]
        {
            assert!(size(&value) >= value.to_string().len(), "{value}");
        }
    }
}
