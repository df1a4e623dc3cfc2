//! Names whose values are secrets: what is shown of them, what is sealed, and
//! how a value is kept that is not sent again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::checks::{check_count, check_text};
use crate::problem::Problem;

/// Longest value, well below what Linux takes for one variable.
const VALUE: usize = 32 << 10;
/// Most names in one map.
const MOST: usize = 200;

/// Names and values as they are sent; `null` keeps the value that is there.
pub(super) type Given = BTreeMap<String, Option<String>>;

/// Names and values as they are sealed.
pub(super) type Values = BTreeMap<String, String>;

/// Names as they are shown, each with `null` for its value: what may be sent
/// back as it is, and changes nothing then.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(value_type = BTreeMap<String, Option<String>>)]
pub(crate) struct Masked(BTreeMap<String, ()>);

/// Parts what was sent into what is shown and what is sealed. A name that is
/// not sent is gone.
pub(super) fn mask(
    field: &str,
    given: Given,
    before: &Values,
    check_name: fn(&str, &str) -> Result<(), Problem>,
) -> Result<(Masked, Values), Problem> {
    check_count(field, given.len(), MOST)?;
    let mut values = Values::new();
    for (name, value) in given {
        let field = format!("{field}.{name}");
        check_name(&field, &name)?;
        let value = match value {
            Some(value) => value,
            None => before.get(&name).cloned().ok_or_else(|| {
                Problem::bad_field(&field, "is null, and there is no value to keep")
            })?,
        };
        check_text(&field, &value, VALUE)?;
        values.insert(name, value);
    }
    Ok((Masked(values.keys().map(|name| (name.clone(), ())).collect()), values))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Given, Values, mask};
    use crate::resources::checks::check_variable;

    #[test]
    fn null_keeps_a_value_and_what_is_not_sent_is_gone() {
        let before = Values::from([("KEPT".into(), "1".into()), ("GONE".into(), "2".into())]);
        let given = Given::from([("KEPT".into(), None), ("NEW".into(), Some("3".into()))]);
        let (masked, values) = mask("variables", given, &before, check_variable).unwrap();
        assert_eq!(serde_json::to_value(masked).unwrap(), json!({"KEPT": null, "NEW": null}));
        let expected = Values::from([("KEPT".into(), "1".into()), ("NEW".into(), "3".into())]);
        assert_eq!(values, expected);

        let refused = |name: &str, value: Option<&str>| {
            let given = Given::from([(name.to_owned(), value.map(str::to_owned))]);
            format!("{:?}", mask("variables", given, &before, check_variable).unwrap_err())
        };
        assert!(refused("MISSING", None).contains("variables.MISSING"));
        assert!(refused("1", Some("x")).contains("variables.1"));
        assert!(refused("A", Some("\0")).contains("variables.A"));
    }
}
