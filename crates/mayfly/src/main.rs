//! The program: one binary, several roles.
//!
//! Here a role is chosen and its failure is said. Which settings there are is
//! in `config`, what each command offers in `cli`.

mod backup;
mod bar;
mod cli;
mod client;
mod config;
mod doctor;
mod files;
mod keys;
mod output;
mod place;
mod probe;
mod run;
mod runs;
mod serve;
mod template;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    match perform(Cli::parse()) {
        Ok(code) => code,
        // Whoever read our output has seen enough: `mayfly keys list | head -1`.
        Err(err) if is_broken_pipe(&err) => ExitCode::SUCCESS,
        Err(err) => {
            output::complain(&err);
            ExitCode::FAILURE
        }
    }
}

/// The runtime is made by the commands that need one: a probe must be single
/// threaded to enter a namespace.
fn perform(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(arguments) => serve::command(arguments),
        Command::Down(arguments) => serve::down(arguments),
        Command::Run(arguments) => run::command(&arguments),
        Command::Runs(arguments) => runs::command(arguments),
        Command::Template(arguments) => template::command(arguments),
        Command::Keys(arguments) => keys::command(arguments),
        Command::Backup(arguments) => backup::backup(arguments),
        Command::Restore(arguments) => backup::restore(arguments),
        Command::Doctor(arguments) => doctor::command(&arguments),
        Command::Completion { shell } => cli::completion(shell),
        Command::Probe { subject } => Ok(probe::command(subject)),
    }
}

fn is_broken_pipe(err: &anyhow::Error) -> bool {
    err.downcast_ref::<io::Error>().is_some_and(|err| err.kind() == io::ErrorKind::BrokenPipe)
}
