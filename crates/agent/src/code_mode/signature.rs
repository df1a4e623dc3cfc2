//! JSON Schemas as TypeScript types, for models that write programs. A schema is
//! anybody's: what is too deep, too long or unheard of is `unknown`.

use serde_json::{Map, Value};

/// Deepest nesting that is written out.
const DEPTH: usize = 5;
/// Most members of one type.
const MEMBERS: usize = 64;
/// Longest type, in bytes.
const BYTES: usize = 4 << 10;

/// The type of a schema's values.
pub(super) fn of(schema: &Value) -> String {
    let text = written(schema, DEPTH);
    if text.len() > BYTES { "Record<string, unknown>".to_owned() } else { text }
}

fn written(schema: &Value, depth: usize) -> String {
    let unknown = || "unknown".to_owned();
    let Value::Object(schema) = schema else { return unknown() };
    let Some(depth) = depth.checked_sub(1) else { return unknown() };
    if let Some(value) = schema.get("const") {
        return literal(value).unwrap_or_else(unknown);
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return union(values.iter().map(|value| literal(value).unwrap_or_else(unknown)));
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(Value::Array(schemas)) = schema.get(several) {
            return union(schemas.iter().map(|schema| written(schema, depth)));
        }
    }
    match schema.get("type") {
        Some(Value::String(name)) => named(name, schema, depth),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            union(names.map(|name| named(name, schema, depth)))
        }
        // Many who write schemas leave out what goes without saying.
        Some(_) | None if schema.contains_key("properties") => object(schema, depth),
        Some(_) | None => unknown(),
    }
}

fn named(name: &str, schema: &Map<String, Value>, depth: usize) -> String {
    match name {
        "string" | "boolean" | "null" => name.to_owned(),
        "number" | "integer" => "number".to_owned(),
        "array" => match schema.get("items") {
            Some(items) => format!("Array<{}>", written(items, depth)),
            None => "Array<unknown>".to_owned(),
        },
        "object" => object(schema, depth),
        _ => "unknown".to_owned(),
    }
}

fn object(schema: &Map<String, Value>, depth: usize) -> String {
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => {
                format!("Record<string, {}>", written(values, depth))
            }
            Some(_) | None => "Record<string, unknown>".to_owned(),
        };
    };
    if properties.is_empty() {
        return "{}".to_owned();
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let mut members: Vec<String> = Vec::new();
    for (name, schema) in properties.iter().take(MEMBERS) {
        let mark = if is_required(name) { "" } else { "?" };
        members.push(format!("{}{mark}: {}", key(name), written(schema, depth)));
    }
    if properties.len() > MEMBERS {
        members.push("[other: string]: unknown".to_owned());
    }
    format!("{{ {} }}", members.join("; "))
}

fn union(types: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for one in types.take(MEMBERS) {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    if distinct.is_empty() { "unknown".to_owned() } else { distinct.join(" | ") }
}

fn literal(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Some(value.to_string())
        }
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn key(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$';
    let begins = name.chars().next().is_some_and(|first| !first.is_ascii_digit());
    if begins && name.chars().all(plain) { name.to_owned() } else { Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{BYTES, of};

    #[test]
    fn schemas_are_types() {
        let check = |schema: Value, expected: &str| assert_eq!(of(&schema), expected, "{schema}");
        check(json!({"type": "string"}), "string");
        check(json!({"type": ["integer", "null", "number"]}), "number | null");
        check(json!({"enum": ["a", 1, null, ["b"]]}), "\"a\" | 1 | null | unknown");
        check(json!({"const": "a\"b"}), "\"a\\\"b\"");
        check(json!({"type": "array", "items": {"type": "boolean"}}), "Array<boolean>");
        check(json!({"anyOf": [{"type": "string"}, {"type": "array"}]}), "string | Array<unknown>");
        let city = json!({"city": {"type": "string"}, "a-b": {"type": "number"}});
        check(
            json!({"type": "object", "properties": city, "required": ["city"]}),
            "{ \"a-b\"?: number; city: string }",
        );
        check(json!({"properties": {}}), "{}");
        check(json!({"type": "object"}), "Record<string, unknown>");
        let values = json!({"type": "object", "additionalProperties": {"type": "number"}});
        check(values, "Record<string, number>");
        for other in
            [json!(null), json!(true), json!({}), json!({"type": "x"}), json!({"type": []})]
        {
            check(other, "unknown");
        }
    }

    #[test]
    fn endless_schemas_are_short_types() {
        let mut deep = json!({"type": "string"});
        for _ in 0..50 {
            deep = json!({"type": "array", "items": deep});
        }
        assert_eq!(of(&deep), "Array<Array<Array<Array<Array<unknown>>>>>");
        let many: serde_json::Map<String, Value> =
            (0..1000).map(|n| (format!("field{n}"), json!({"type": "string"}))).collect();
        let wide = json!({"type": "object", "properties": many});
        assert!(of(&wide).len() <= BYTES);
        let nested = json!({"type": "object", "properties": {"a": wide, "b": wide, "c": wide}});
        assert!(of(&nested).len() <= BYTES);
    }
}
