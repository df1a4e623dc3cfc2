//! The program from outside: the real binary, its output and its exit code.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod backup;
mod command_line;
mod keys;
mod program;
mod serve;
mod settings;
