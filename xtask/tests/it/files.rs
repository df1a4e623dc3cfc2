//! Every file says what it owns, and `unsafe` stays where it belongs.

use std::fs;
use std::path::PathBuf;

use crate::tree::{relative, rust_files};

/// Files that may hold `unsafe`: the launcher, what envd does between fork and
/// exec, and an allocator that counts for a test.
const UNSAFE: [&str; 3] =
    ["crates/isolate/src/native", "crates/envd/src/system.rs", "crates/wire/tests/it/main.rs"];

fn all_files() -> Vec<PathBuf> {
    ["crates", "xtask"].into_iter().flat_map(rust_files).collect()
}

#[test]
fn every_file_opens_with_a_header() {
    let bare: Vec<String> = all_files()
        .iter()
        .filter(|path| !fs::read_to_string(path).unwrap().starts_with("//!"))
        .map(|path| relative(path))
        .collect();
    assert!(bare.is_empty(), "files without a `//!` header: {bare:#?}");
}

#[test]
fn unsafe_code_is_only_where_it_may_be() {
    // Put together here, so that this file does not contain them.
    let forms = ["{", "fn", "impl", "extern"].map(|form| format!("{} {form}", "unsafe"));
    for path in all_files() {
        let name = relative(&path);
        let may = UNSAFE.iter().any(|place| name.starts_with(place));
        let text = fs::read_to_string(&path).unwrap();
        let has = forms.iter().any(|form| text.contains(form));
        assert!(may || !has, "{name} has unsafe code and may not");
    }
}

#[test]
fn nothing_silences_a_lint_for_good() {
    // `expect` complains once it is no longer needed; the other one never does.
    let silenced = [format!("#[{}(", "allow"), format!("#![{}(", "allow")];
    for path in all_files() {
        let text = fs::read_to_string(&path).unwrap();
        let name = relative(&path);
        assert!(!silenced.iter().any(|form| text.contains(form)), "{name}: use `expect`");
    }
}

#[test]
fn no_file_is_a_drawer_for_anything() {
    for path in all_files() {
        let name = relative(&path);
        let stem = path.file_stem().unwrap().to_string_lossy();
        let vague = ["util", "utils", "common", "helper", "helpers", "manager", "misc", "mod"];
        assert!(!vague.contains(&stem.as_ref()), "{name} is named after nothing");
    }
}
