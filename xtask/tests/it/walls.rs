//! Who may know whom, as the design draws it, checked against the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::tree::{relative, root, rust_files};

/// A directory of `crates/` and the crates of ours that it may use. The
/// program itself is left out: it is the place where all of them meet.
const MAY_KNOW: [(&str, &[&str]); 12] = [
    ("wire", &[]),
    ("tunnel", &[]),
    ("watch", &[]),
    ("http", &["wire"]),
    ("store", &["wire"]),
    ("isolate", &["wire", "tunnel"]),
    ("envd", &["wire", "http", "tunnel"]),
    ("agent", &["wire", "watch"]),
    ("sandbox", &["wire", "tunnel", "store", "isolate"]),
    ("gateway", &["wire", "http", "sandbox"]),
    ("runner", &["wire", "http", "store", "sandbox"]),
    ("workspace", &["wire", "http", "store"]),
];
const PROGRAM: &str = "mayfly";

/// What one manifest asks for, by section name.
type Sections = BTreeMap<String, BTreeSet<String>>;

#[test]
fn crates_know_only_whom_the_design_lets_them() {
    let may_know = BTreeMap::from(MAY_KNOW);
    for (name, sections) in manifests() {
        if name == PROGRAM {
            continue;
        }
        let direct = may_know.get(name.as_str());
        let direct = direct.unwrap_or_else(|| panic!("crates/{name} is not in the design"));
        let below = everything_below(&name, &may_know);
        for (section, dependencies) in &sections {
            for dependency in dependencies.iter().filter_map(|name| ours(name)) {
                // Tests may also build what their crate stands on.
                let allowed = match section.as_str() {
                    "dev-dependencies" => below.contains(dependency.as_str()),
                    _ => direct.contains(&dependency.as_str()),
                };
                assert!(allowed, "crates/{name} may not know {dependency} ({section})");
            }
        }
    }
}

#[test]
fn nobody_knows_the_program() {
    for (name, sections) in manifests() {
        let known = sections.values().any(|section| section.contains(PROGRAM));
        assert!(!known, "crates/{name} depends on the program");
    }
}

#[test]
fn wire_has_no_clock_no_task_and_no_file() {
    let sections = &manifests()["wire"];
    for runtime in ["tokio", "hyper", "axum", "futures-util", "reqwest", "nix", "rustix"] {
        assert!(!sections["dependencies"].contains(runtime), "wire depends on {runtime}");
    }
    for path in rust_files("crates/wire/src") {
        let text = fs::read_to_string(&path).unwrap();
        for forbidden in ["std::fs", "std::net", "SystemTime", "Instant", "Utc::now", "async fn"] {
            assert!(!text.contains(forbidden), "{} uses {forbidden}", relative(&path));
        }
    }
}

#[test]
fn versions_live_in_the_root_manifest() {
    for (name, sections) in manifests() {
        let text =
            fs::read_to_string(root().join("crates").join(&name).join("Cargo.toml")).unwrap();
        for dependency in sections.values().flatten() {
            let inherited = text.lines().any(|line| {
                line.starts_with(&format!("{dependency}.workspace"))
                    || line.starts_with(&format!("{dependency} = {{ workspace = true"))
            });
            assert!(inherited, "crates/{name} sets its own version of {dependency}");
        }
        assert!(!sections.contains_key("features"), "crates/{name} has cargo features");
    }
}

/// Our crate's directory behind a dependency's name.
fn ours(dependency: &str) -> Option<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let line = manifest.lines().find(|line| {
        line.starts_with(&format!("{dependency} = ")) && line.contains("path = \"crates/")
    })?;
    let (_, path) = line.split_once("path = \"crates/")?;
    Some(path.split('"').next()?.to_owned())
}

fn everything_below<'a>(
    name: &str,
    may_know: &BTreeMap<&'a str, &'a [&'a str]>,
) -> BTreeSet<&'a str> {
    let mut below = BTreeSet::new();
    let mut waiting: Vec<&str> = may_know[name].to_vec();
    while let Some(name) = waiting.pop() {
        if below.insert(name) {
            waiting.extend(may_know[name]);
        }
    }
    below
}

fn manifests() -> BTreeMap<String, Sections> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let directory = entry.unwrap().path();
        let text = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        found.insert(name, sections(&text));
    }
    found
}

/// The names under each dependency heading. Manifests here are plain enough
/// that lines will do.
fn sections(manifest: &str) -> Sections {
    let mut found = Sections::new();
    let mut heading = String::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            heading = name.trim_end_matches(']').to_owned();
        }
        let name: String =
            line.chars().take_while(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
        if (heading.ends_with("dependencies") || heading == "features") && !name.is_empty() {
            found.entry(heading.clone()).or_default().insert(name);
        }
    }
    found
}

#[test]
fn a_manifest_is_read_by_section() {
    let text = "[package]\nname = \"x\"\n[dependencies]\nwire.workspace = true\n\
                [dev-dependencies]\nproptest = { workspace = true }\n";
    let sections = sections(text);
    assert_eq!(sections["dependencies"], BTreeSet::from(["wire".to_owned()]));
    assert_eq!(sections["dev-dependencies"], BTreeSet::from(["proptest".to_owned()]));
    assert_eq!(ours("http-kit").as_deref(), Some("http"));
    assert_eq!(ours("tokio"), None);
}
