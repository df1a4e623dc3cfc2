//! The keeper of one sandbox: `mayfly-keeper STATE-DIRECTORY`.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

fn main() -> ExitCode {
    let Some(state) = std::env::args_os().nth(1) else {
        let _ = writeln!(io::stderr(), "mayfly-keeper is started by mayfly, with a directory");
        return ExitCode::from(2);
    };
    match isolate::keep(Path::new(&state)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            let _ = writeln!(io::stderr(), "mayfly-keeper: {err}");
            ExitCode::FAILURE
        }
    }
}
