//! The program: reads its command line and serves until its leash is cut.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use envd::{Invocation, Options};

fn main() -> ExitCode {
    match Options::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Version) => {
            let line = concat!("mayfly-envd ", env!("CARGO_PKG_VERSION"), "\n");
            // Nobody is left to tell when standard output is gone.
            let _ = io::stdout().write_all(line.as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Invocation::Serve(options)) => match envd::run(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(err) => fail(&err, 1),
        },
        Err(err) => fail(&err, 2),
    }
}

/// Says the error and what caused it, once, where it stops.
fn fail(err: &dyn std::error::Error, status: u8) -> ExitCode {
    let mut line = format!("mayfly-envd: {err}");
    let mut cause = err.source();
    while let Some(err) = cause {
        line.push_str(&format!(": {err}"));
        cause = err.source();
    }
    // Nobody is left to tell when standard error is gone.
    let _ = writeln!(io::stderr(), "{line}");
    ExitCode::from(status)
}
