//! The keeper of one sandbox: `mayfly-keeper STATE-DIRECTORY`.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

fn main() -> ExitCode {
    let Some(argument) = std::env::args_os().nth(1) else {
        let _ = writeln!(io::stderr(), "mayfly-keeper is started by mayfly, with a directory");
        return ExitCode::from(2);
    };
    let argument = Path::new(&argument);
    let (done, who) = if isolate::is_trial(argument) {
        // The server says who it was.
        (isolate::try_without_root(), "")
    } else {
        (isolate::keep(argument), "mayfly-keeper: ")
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            let _ = writeln!(io::stderr(), "{who}{err}");
            ExitCode::FAILURE
        }
    }
}
