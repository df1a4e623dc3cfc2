//! The project's own commands: `cargo xtask build | serve | test | audit`.
//!
//! Logic lives here and not in shell scripts, so that a fresh clone needs
//! nothing but Rust to learn how it is built and tested.

#![expect(clippy::print_stdout, reason = "a command line tool talks on stdout")]

mod audit;
mod binary;
mod install;
mod step;
mod tally;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask <command>

  build            builds every program; the one inside sandboxes is static
  serve [args...]  builds, then runs `mayfly serve` with the arguments
  test [filter]    installs what the tests need, then runs all of them
  audit            licences, banned and unused dependencies (slow, needs the network)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let Some((command, rest)) = arguments.split_first() else {
        bail!("no command\n\n{USAGE}");
    };
    match (command.as_str(), rest) {
        ("build", []) => binary::build_all().map(|()| ExitCode::SUCCESS),
        ("serve", arguments) => Err(binary::serve(arguments)),
        ("test", []) => test::test_all(None),
        ("test", [filter]) => test::test_all(Some(filter)),
        ("audit", []) => audit::check_dependencies().map(|()| ExitCode::SUCCESS),
        ("help" | "--help" | "-h", _) => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        (command, _) => bail!("cannot run `{command}` with these arguments\n\n{USAGE}"),
    }
}
