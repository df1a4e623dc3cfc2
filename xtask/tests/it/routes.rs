//! Every route of ours is in the API document: `routes!` adds a route together
//! with what describes it, and nothing else adds one. And no two schemas of the
//! document have one name, of which one would describe the other's routes.

use std::collections::BTreeMap;
use std::fs;

use crate::tree::{relative, rust_files};

/// Where routes are made that E2B's specification describes, and what they
/// start with.
const FOREIGN: &str = "crates/gateway/src/routes.rs";
const PATHS: [&str; 3] = ["/sandboxes", "/v2/sandboxes", "/templates"];

/// Crates that answer callers of the API.
const CRATES: [&str; 4] =
    ["crates/gateway/src", "crates/runner/src", "crates/workspace/src", "crates/mayfly/src"];

/// Ways to add a route that nothing describes.
const UNDESCRIBED: [&str; 4] = [".route(", ".route_service(", ".nest_service(", "MethodRouter"];

#[test]
fn a_route_is_added_together_with_its_description() {
    for path in CRATES.into_iter().flat_map(rust_files) {
        let name = relative(&path);
        let text = fs::read_to_string(&path).unwrap();
        // Tests at the end of a file may play servers of their own.
        let text = text.split("#[cfg(test)]").next().unwrap();
        for form in UNDESCRIBED {
            for (at, _) in text.match_indices(form) {
                let rest = text[at + form.len()..].trim_start().trim_start_matches('"');
                // One more is a variable: a path of E2B's that is not served yet.
                let is_foreign = PATHS.iter().any(|path| rest.starts_with(path))
                    || rest.starts_with("path, any(not_yet::answer)");
                assert!(
                    name == FOREIGN && is_foreign,
                    "{name}: `{form}` adds a route that is not in the API document; use `routes!`"
                );
            }
        }
    }
}

#[test]
fn a_name_in_the_document_means_one_schema() {
    let mut named = BTreeMap::<String, String>::new();
    for path in CRATES.into_iter().flat_map(rust_files) {
        let text = fs::read_to_string(&path).unwrap();
        for schema in schemas(&text) {
            let place = relative(&path);
            // Two crates that do not know each other describe `wire::RestError`.
            if schema == "Fault" && place.ends_with("described.rs") {
                continue;
            }
            if let Some(other) = named.insert(schema.clone(), place.clone()) {
                panic!("`{schema}` is in {other} and in {place}; use `#[schema(as = …)]`");
            }
        }
    }
    assert!(named.contains_key("RunInfo") && named.contains_key("ProblemBody"), "{named:?}");
}

/// Names of the types in a file that derive `ToSchema`, as the document has them.
fn schemas(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !(line.starts_with("#[derive(") && line.contains("ToSchema")) {
            continue;
        }
        let mut alias = None;
        for line in lines.by_ref() {
            if let Some((_, rest)) = line.split_once("#[schema(as = ") {
                alias = rest.split([',', ')']).next().map(str::to_owned);
            }
            let declared = line.split_once("struct ").or_else(|| line.split_once("enum "));
            if let Some((_, rest)) = declared.filter(|_| !line.trim_start().starts_with(['/', '#']))
            {
                let name = rest.split(|c: char| !c.is_alphanumeric()).next();
                found.extend(alias.or(name.map(str::to_owned)));
                break;
            }
        }
    }
    found
}
