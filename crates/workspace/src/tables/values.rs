//! Whether a row fits under its columns. An error names row and column.

use chrono::{DateTime, NaiveDate};
use serde_json::{Map, Value};

use super::{ColumnType, Table};
use crate::problem::Problem;

/// Largest row, written as JSON.
const ROW: usize = 256 << 10;

impl Table {
    /// A row that fits: a value or null under every column, and nothing else.
    /// `field` is where in the request it is.
    pub(super) fn fit(&self, field: &str, mut row: Map<String, Value>) -> Result<Value, Problem> {
        let wrong = |name: &str, message: &str| {
            Err(Problem::bad_field(format!("{field}.{name}"), message.to_owned()))
        };
        let mut fitted = Map::new();
        for column in &self.columns {
            let value = row.remove(&column.name).unwrap_or(Value::Null);
            if !column.r#type.takes(&value) {
                return wrong(&column.name, column.r#type.refusal());
            }
            if has_nul(&value) {
                return wrong(&column.name, "has a NUL character");
            }
            fitted.insert(column.name.clone(), value);
        }
        if let Some(name) = row.keys().next() {
            return wrong(name, "is no column of this table");
        }
        let fitted = Value::Object(fitted);
        if fitted.to_string().len() > ROW {
            return Err(Problem::bad_field(field, format!("is larger than {ROW} bytes")));
        }
        Ok(fitted)
    }
}

impl ColumnType {
    fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null) | (ColumnType::Json, _) => true,
            (ColumnType::Text, value) => value.is_string(),
            (ColumnType::Number, value) => value.is_number(),
            (ColumnType::Boolean, value) => value.is_boolean(),
            (ColumnType::Date, value) => value.as_str().is_some_and(is_date),
        }
    }

    fn refusal(self) -> &'static str {
        match self {
            ColumnType::Text => "is not a text",
            ColumnType::Number => "is not a number",
            ColumnType::Boolean => "is not true or false",
            ColumnType::Json => "is not JSON",
            ColumnType::Date => "is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z",
        }
    }
}

fn is_date(text: &str) -> bool {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() && text.len() == 10
        || DateTime::parse_from_rfc3339(text).is_ok()
}

/// Postgres keeps none in a text, in whatever depth.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_nul),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Table;

    fn table() -> Table {
        let column = |name: &str, kind: &str| json!({"name": name, "type": kind});
        serde_json::from_value(json!({"columns": [
            column("item", "text"), column("price", "number"), column("sold", "boolean"),
            column("more", "json"), column("on", "date"),
        ]}))
        .unwrap()
    }

    #[track_caller]
    fn check(row: Value, refused: Option<&str>) {
        let fitted = table().fit("rows[3]", row.as_object().unwrap().clone());
        let problem = fitted.err().map(|problem| format!("{problem:?}"));
        match refused {
            None => assert_eq!(problem, None, "{row}"),
            Some(field) => {
                let problem = problem.unwrap_or_default();
                assert!(problem.contains(&format!("{field:?}")), "{row}: {problem}");
            }
        }
    }

    #[test]
    fn a_row_fits_or_its_wrong_value_is_named() {
        check(json!({}), None);
        check(json!({"item": "", "price": -1.5e3, "sold": false, "more": [{}], "on": null}), None);
        check(json!({"on": "2026-02-28"}), None);
        check(json!({"on": "2026-02-28T23:59:59.5+01:00"}), None);
        check(json!({"item": 1}), Some("rows[3].item"));
        check(json!({"price": "1"}), Some("rows[3].price"));
        check(json!({"sold": 0}), Some("rows[3].sold"));
        check(json!({"on": "2026-02-29"}), Some("rows[3].on"));
        check(json!({"on": "2026-2-1"}), Some("rows[3].on"));
        check(json!({"on": "yesterday"}), Some("rows[3].on"));
        check(json!({"colour": "red"}), Some("rows[3].colour"));
        check(json!({"more": {"a": ["\0"]}}), Some("rows[3].more"));
        check(json!({"item": "x".repeat(300 << 10)}), Some("rows[3]"));
    }

    #[test]
    fn what_is_not_sent_is_null() {
        let row = json!({"price": 2});
        let fitted = table().fit("data", row.as_object().unwrap().clone()).unwrap();
        let expected = json!({"item": null, "price": 2, "sold": null, "more": null, "on": null});
        assert_eq!(fitted, expected);
    }
}
