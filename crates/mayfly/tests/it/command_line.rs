//! Help, completion and the doctor.

use crate::program::Program;

#[test]
fn every_command_teaches_with_examples_and_defaults() {
    let program = Program::new();
    let names = ["serve", "template", "keys", "doctor", "completion"];
    let commands = [vec![]].into_iter().chain(names.map(|name| vec![name]));
    for command in commands {
        let help = program.succeed(&[&command[..], &["--help"]].concat());
        assert!(help.contains("Examples:\n  "), "{command:?}: {help}");
    }
    let serve = program.succeed(&["serve", "--help"]);
    for default in ["127.0.0.1:3000", "./mayfly-data", "default: 200", "default: native"] {
        assert!(serve.contains(default), "{default} is not in: {serve}");
    }
}

#[test]
fn the_version_is_printed() {
    let text = Program::new().succeed(&["--version"]);
    assert_eq!(text, format!("mayfly {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_completion_script_for_every_shell_knows_the_commands() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = program.succeed(&["completion", shell]);
        for word in ["serve", "keys", "max-sandboxes", "gvisor"] {
            assert!(script.contains(word), "{word} is not in the script for {shell}");
        }
        assert!(!script.contains("probe"), "the script for {shell} offers what the help hides");
    }
}

#[test]
fn the_doctor_has_a_row_for_everything_and_a_remedy_for_what_is_missing() {
    let program = Program::new();
    let output = program.command(&["doctor", "--json", "--envd", "/bin/sh"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // The default tier can do without root, where user namespaces can be had.
    let native = report["checks"][0]["state"].as_str().unwrap();
    assert_eq!(report["canServe"], native != "missing");
    assert_eq!(report["canServe"], output.status.success());
    let checks = report["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|row| row["check"].as_str().unwrap()).collect();
    let expected = [
        "tier native",
        "tier process",
        "tier gvisor",
        "tier runc",
        "tier kubernetes",
        "envd",
        "data directory",
        "cgroups",
        "user namespaces",
        "overlayfs",
        "seccomp",
        "landlock",
        "nft",
        "ip forwarding",
        "forward policy",
        "runsc",
        "runc",
        "bwrap",
        "npm",
        "harnesses",
        "free disk",
        "disk limit",
        "open files",
    ];
    assert_eq!(names, expected);
    for row in checks {
        let state = row["state"].as_str().unwrap();
        assert!(["ok", "limited", "missing"].contains(&state), "{row}");
        assert_ne!(row["detail"], "", "{row}");
        assert_eq!(row["remedy"].is_null(), state == "ok", "{row}");
    }
}

#[test]
fn the_doctor_fails_when_serving_is_impossible_and_leaves_nothing_behind() {
    let program = Program::new();
    let output = program.command(&["doctor", "--envd", "/nothing"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("no program at /nothing"), "{text}");
    assert!(text.contains("cannot work here yet"), "{text}");
    assert!(!program.path("mayfly-data").exists());
}
