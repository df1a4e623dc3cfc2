//! Variables, directories and programs, as tables.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use super::{EnvironmentError, directory, program, variables};
use crate::users::Identity;

fn identity() -> Identity {
    Identity { name: "ada".into(), home: "/home/ada".into(), switch: None }
}

#[track_caller]
fn check_variables(sandbox: &[(&str, &str)], call: &[(&str, &str)], expected: &str) {
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let sandbox: BTreeMap<_, _> = owned(sandbox).into_iter().collect();
    let call: BTreeMap<_, _> = owned(call).into_iter().collect();
    let seen = match variables(Some("/bin".into()), &identity(), &sandbox, &call) {
        Ok(variables) => variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect::<Vec<_>>()
            .join(" "),
        Err(err) => err.to_string(),
    };
    assert_eq!(seen, expected);
}

#[test]
fn the_call_wins_over_the_sandbox_and_the_sandbox_over_the_user() {
    check_variables(&[], &[], "HOME=/home/ada LOGNAME=ada PATH=/bin USER=ada");
    check_variables(
        &[("HOME", "/x"), ("A", "1")],
        &[("A", "2"), ("PATH", "/opt")],
        "A=2 HOME=/x LOGNAME=ada PATH=/opt USER=ada",
    );
    check_variables(&[], &[("A=B", "1")], "'A=B' is not a name for a variable");
    check_variables(&[], &[("", "1")], "'' is not a name for a variable");
    check_variables(&[], &[("A", "1\0")], "cmd, args, envs and cwd must not contain NUL");
}

#[test]
fn a_path_is_given_when_we_have_none() {
    let all = variables(None, &identity(), &BTreeMap::new(), []).unwrap();
    assert!(all[OsStr::new("PATH")].to_string_lossy().ends_with("/usr/bin:/sbin:/bin"));
}

#[track_caller]
fn check_directory(cwd: Option<&str>, expected: Result<&str, EnvironmentError>) {
    assert_eq!(directory(Path::new("/usr"), cwd), expected.map(PathBuf::from), "{cwd:?}");
}

#[test]
fn a_directory_is_seen_from_the_home() {
    check_directory(None, Ok("/usr"));
    check_directory(Some(""), Ok("/usr"));
    check_directory(Some("~"), Ok("/usr"));
    check_directory(Some("~/bin"), Ok("/usr/bin"));
    check_directory(Some("bin"), Ok("/usr/bin"));
    check_directory(Some("/etc"), Ok("/etc"));
    check_directory(Some("/nope"), Err(EnvironmentError::NoDirectory("/nope".into())));
    check_directory(Some("nope"), Err(EnvironmentError::NoDirectory("/usr/nope".into())));
    check_directory(Some("~ada"), Err(EnvironmentError::NoDirectory("/usr/~ada".into())));
    check_directory(Some("/etc/passwd"), Err(EnvironmentError::NotDirectory("/etc/passwd".into())));
    check_directory(Some("a\0b"), Err(EnvironmentError::Nul));
}

#[track_caller]
fn check_program(command: &str, expected: Result<&str, &str>) {
    let path = OsString::from("/nope:/usr/bin:/bin");
    let seen = program(OsStr::new(command), &path, Path::new("/"));
    let seen = seen.map_err(|err| err.to_string());
    assert_eq!(seen, expected.map(PathBuf::from).map_err(str::to_owned));
}

#[test]
fn a_program_is_found_or_the_cause_is_named() {
    check_program("env", Ok("/usr/bin/env"));
    check_program("/bin/sh", Ok("/bin/sh"));
    check_program("./bin/sh", Ok("/./bin/sh"));
    check_program("", Err("cmd is empty"));
    check_program("no-such-thing", Err("command 'no-such-thing' was not found in PATH"));
    check_program("/nope", Err("command '/nope' cannot be executed: no such file"));
    check_program(
        "/etc/passwd",
        Err("command '/etc/passwd' cannot be executed: permission denied"),
    );
    check_program("/etc", Err("command '/etc' cannot be executed: it is a directory"));
}
