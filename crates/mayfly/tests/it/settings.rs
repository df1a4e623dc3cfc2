//! Where settings come from, and what is said about wrong ones.

use crate::program::{Program, fail};

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file() {
    let program = Program::new();
    program.write("mayfly.toml", "data = 'file'");
    // Which store the key went into shows which setting held.
    program.succeed(&["keys", "create", "--config", "mayfly.toml"]);
    assert!(program.path("file/mayfly.db").exists());

    let mut command = program.command(&["keys", "create", "--config", "mayfly.toml"]);
    assert!(command.env("MAYFLY_DATA", "variable").output().unwrap().status.success());
    assert!(program.path("variable/mayfly.db").exists());

    let mut command = program.command(&["keys", "create", "--data", "flag"]);
    command.env("MAYFLY_DATA", "unused").env("MAYFLY_CONFIG", "mayfly.toml");
    assert!(command.output().unwrap().status.success());
    assert!(program.path("flag/mayfly.db").exists());
    assert!(!program.path("unused").exists());
}

#[test]
fn a_wrong_file_is_named_with_its_line_and_key() {
    let program = Program::new();
    program.write("mayfly.toml", "data = 'x'\nlisen = '127.0.0.1:1'\n");
    let text = program.fail(&["serve", "--config", "mayfly.toml"]);
    for part in ["mayfly.toml", "line 2", "unknown field `lisen`"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let text = program.fail(&["serve", "--config", "absent.toml"]);
    assert!(text.contains("cannot read the configuration `absent.toml`"), "{text}");
}

#[test]
fn the_process_tier_does_not_listen_in_public() {
    let program = Program::new();
    let arguments = ["serve", "--tier", "process", "--listen", "0.0.0.0:3000"];
    let text = program.fail(&[&arguments[..], &["--envd", "/bin/sh"]].concat());
    assert!(text.contains("use --listen 127.0.0.1:3000"), "{text}");
    let mut command =
        program.command(&["serve", "--tier", "process", "--insecure", "--envd", "/bin/sh"]);
    let text = fail(command.env("MAYFLY_LISTEN", "[::]:3000"));
    assert!(text.contains("leave --insecure out"), "{text}");
    assert!(!program.path("mayfly-data").exists());
}

#[test]
fn a_tier_of_the_future_is_refused_with_what_to_use() {
    let program = Program::new();
    let text = program.fail(&["serve", "--tier", "kubernetes"]);
    assert!(text.contains("not in this version; use `native`"), "{text}");
    assert!(program.fail(&["serve", "--tier", "jail"]).contains("possible values"));
}

#[test]
fn a_missing_envd_and_a_bad_log_filter_are_said_before_anything_starts() {
    let program = Program::new();
    let text = program.fail(&["serve", "--tier", "process", "--envd", "/nothing"]);
    assert!(text.contains("there is no envd at `/nothing`"), "{text}");
    let mut command = program.command(&["serve", "--tier", "process", "--envd", "/bin/sh"]);
    let text = fail(command.env("MAYFLY_LOG", "mayfly=loud"));
    assert!(text.contains("MAYFLY_LOG is `mayfly=loud`"), "{text}");
    assert!(!program.path("mayfly-data").exists());
}
