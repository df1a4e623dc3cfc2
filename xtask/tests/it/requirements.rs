//! `docs/requirements.md` names the test that holds each requirement of the
//! seeds. A name that no test bears any more is a promise nobody keeps.
//!
//! A row is `| S4-01 | what is required | proof |`. The proof is one or more
//! tests in backticks, or starts with `not yet:` or `not testable:` and says why.
//! Tests are written in one of three ways:
//! - `wire::envelope::name`: a Rust test in `crates/wire/src/envelope.rs` or its `tests.rs`;
//!   `wire::agui::tests::calls::name` is in `crates/wire/src/agui/tests/calls.rs`,
//!   `mayfly::it::keys::name` in `crates/mayfly/tests/it/keys.rs`; `xtask::…` likewise
//! - `conformance/python/test_x.py::name`: a Python function
//! - `conformance/js/x.test.mjs::a sentence`: a Node test by its title

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::tree::root;

/// Requirements of a seed, and how many the seed has.
const SEEDS: [(&str, usize); 5] = [("S0", 52), ("S1", 44), ("S2", 58), ("S3", 42), ("S4", 76)];

struct Row {
    id: String,
    proof: String,
}

#[test]
fn every_requirement_has_one_row() {
    let mut seen = BTreeMap::<String, usize>::new();
    for row in rows() {
        *seen.entry(row.id).or_default() += 1;
    }
    for (seed, count) in SEEDS {
        for number in 1..=count {
            let id = format!("{seed}-{number:02}");
            assert_eq!(seen.get(&id), Some(&1), "{id} needs exactly one row");
        }
    }
}

#[test]
fn every_named_test_exists() {
    let mut missing = Vec::new();
    for row in rows() {
        let reason = row.proof.starts_with("not yet:") || row.proof.starts_with("not testable:");
        let tests: Vec<&str> = row.proof.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() && !reason {
            missing.push(format!("{}: neither a test nor a reason", row.id));
        }
        for test in tests.iter().filter(|test| !reason && !exists(test)) {
            missing.push(format!("{}: no test `{test}`", row.id));
        }
    }
    assert!(missing.is_empty(), "docs/requirements.md: {missing:#?}");
}

#[test]
fn a_test_is_found_where_its_name_says() {
    assert!(exists("wire::code::every_code_reads_back_from_its_name"));
    assert!(!exists("wire::code::no_such_test"));
    assert!(exists("xtask::it::requirements::a_test_is_found_where_its_name_says"));
    assert!(!exists("conformance/python/conftest.py::no_such_test"));
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("docs/requirements.md")).unwrap();
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| S")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, _, proof] = cells[..] else { panic!("a row has three cells: {line}") };
        rows.push(Row { id: id.to_owned(), proof: proof.to_owned() });
    }
    rows
}

fn exists(test: &str) -> bool {
    let Some((place, name)) = test.rsplit_once("::") else { return false };
    let declares = |path: PathBuf, declaration: String| {
        fs::read_to_string(path).is_ok_and(|text| text.contains(&declaration))
    };
    if place.ends_with(".py") {
        return declares(root().join(place), format!("def {name}("));
    }
    if place.ends_with(".mjs") {
        return declares(root().join(place), format!("test('{name}'"));
    }
    rust_places(place).into_iter().any(|path| declares(path, format!("fn {name}(")))
}

/// The files in which a Rust module's tests may be.
fn rust_places(module: &str) -> Vec<PathBuf> {
    let mut segments = module.split("::").filter(|segment| *segment != "tests");
    let name = segments.next().unwrap_or_default();
    let home = if name == "xtask" { root().join(name) } else { root().join("crates").join(name) };
    let path: Vec<&str> = segments.collect();
    let base = match path[..] {
        ["it", ..] => home.join("tests"),
        _ => home.join("src"),
    };
    let file = base.join(path.join("/"));
    let declared = match path[..] {
        [] => vec![base.join("lib.rs"), base.join("main.rs")],
        _ => vec![file.with_extension("rs"), file.join("main.rs")],
    };
    // Many tests of one module are in several files.
    let shared = file.parent().zip(file.file_name());
    let shared = shared.map(|(up, leaf)| up.join("tests").join(leaf).with_extension("rs"));
    declared.into_iter().chain([file.join("tests.rs")]).chain(shared).collect()
}
