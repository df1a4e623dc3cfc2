//! Templates, as a table.

use serde_json::{Value, json};

use super::{BadTemplate, FILLED_LIMIT, FillError, Pattern, Template, Values};

fn values() -> Values {
    let mut values = Values::default();
    let outputs = json!({
        "response": "Hello",
        "files": [{ "id": "file_1", "name": "a.txt" }],
        "count": 3,
        "nothing": null,
        "odd-näme": "ok",
    });
    let Value::Object(outputs) = outputs else { unreachable!() };
    values.insert("one", outputs);
    values
}

#[track_caller]
fn check(template: &str, expected: Value) {
    let filled = Template::parse(template).unwrap().value(&values());
    assert_eq!(filled, Ok(expected), "{template:?}");
}

#[test]
fn one_reference_alone_keeps_its_type() {
    check("{{one.files}}", json!([{ "id": "file_1", "name": "a.txt" }]));
    check("{{ one.count }}", json!(3));
    check("{{one.nothing}}", Value::Null);
    check("{{one.response}}", json!("Hello"));
}

#[test]
fn among_text_everything_becomes_text() {
    check("{{one.response}}, {{one.count}} times: {{one.nothing}}", json!("Hello, 3 times: null"));
    check("x{{one.files}}", json!(r#"x[{"id":"file_1","name":"a.txt"}]"#));
    check("{{one.count}}{{one.count}}", json!("33"));
    check("", json!(""));
    check("a } b }} c { d", json!("a } b }} c { d"));
    let alone = Template::parse("{{one.count}}").unwrap();
    assert_eq!(alone.text(&values()), Ok("3".to_owned()));
}

#[test]
fn members_and_indexes_go_on_behind_the_output() {
    check("{{one.files.0.name}}", json!("a.txt"));
    check("{{one.odd-näme}}", json!("ok"));
}

#[test]
fn a_backslash_takes_the_meaning_away() {
    check(r"\{{one.count}}", json!("{{one.count}}"));
    check(r"\{{ {{one.count}}", json!("{{ 3"));
}

#[test]
fn what_is_no_reference_is_told() {
    for bad in ["{{one}}", "{{}}", "{{One.x}}", "{{one.}}", "{{one.x y}}", "{{{one.x}}}", "{{.x}}"]
    {
        let error = Template::parse(bad);
        assert!(matches!(error, Err(BadTemplate::NoReference(_))), "{bad:?}: {error:?}");
    }
    assert_eq!(Template::parse("a {{one.x"), Err(BadTemplate::NoEnd));
    assert_eq!(
        BadTemplate::NoReference("one".to_owned()).to_string(),
        r"`{{one}}` is no reference like `{{block.output}}`; write `\{{` for the characters themselves"
    );
}

#[test]
fn a_reference_that_leads_nowhere_is_told() {
    for bad in
        ["{{one.other}}", "{{two.x}}", "{{one.files.1}}", "{{one.files.x}}", "{{one.count.0}}"]
    {
        let error = Template::parse(bad).unwrap().value(&values()).unwrap_err();
        assert_eq!(error.to_string(), format!("`{bad}` has no value in this execution"));
    }
}

#[test]
fn patterns_are_filled_at_any_depth_and_name_the_place_of_a_mistake() {
    let pattern = json!({ "a": ["{{one.response}}!", 1, null], "b": { "c": "{{one.files}}" } });
    let pattern = Pattern::parse(&pattern).unwrap();
    assert_eq!(
        pattern.value(&values()),
        Ok(
            json!({ "a": ["Hello!", 1, null], "b": { "c": [{ "id": "file_1", "name": "a.txt" }] } })
        )
    );
    let places: Vec<_> = pattern.references().into_iter().map(|(place, _)| place).collect();
    assert_eq!(places, [".a[0]", ".b.c"]);
    let bad = Pattern::parse(&json!({ "a": ["", { "b": "{{" }] })).unwrap_err();
    assert_eq!((bad.path.as_str(), bad.cause), (".a[1].b", BadTemplate::NoEnd));
}

#[test]
fn what_a_template_grows_to_is_bounded() {
    let mut values = Values::default();
    let Value::Object(outputs) = json!({ "long": "x".repeat(FILLED_LIMIT / 2) }) else {
        unreachable!()
    };
    values.insert("one", outputs);
    let twice = Template::parse("{{one.long}}{{one.long}}").unwrap();
    assert!(twice.text(&values).is_ok());
    let more = Template::parse("{{one.long}}{{one.long}}.").unwrap();
    assert_eq!(more.text(&values), Err(FillError::TooLarge));
    let spread = Pattern::parse(&json!(["{{one.long}}", "{{one.long}}"])).unwrap();
    assert_eq!(spread.value(&values), Err(FillError::TooLarge));
}
