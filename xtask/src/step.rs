//! Running other programs: a heading before, the time after, an error that
//! names the command line.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The repository's root. Cargo sets the variable for everything it runs, so
/// no path of the machine that built this ends up in the program.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("run this as `cargo xtask`, which tells it where the repository is")?;
    let parent = Path::new(&manifest).parent().context("the manifest has no parent directory")?;
    Ok(parent.to_path_buf())
}

/// A cargo command in the repository's root.
pub(crate) fn cargo<I, S>(arguments: I) -> Result<Command>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// Runs to the end; any exit but 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Whether the program can be started at all and ends well.
pub(crate) fn works(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs to the end, shows each line of stdout and hands it to `on_line`.
/// Answers with the exit code.
pub(crate) fn follow(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<i32> {
    let shown = show(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| format!("cannot read from `{shown}`"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            on_line(&line);
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{shown}`"))?;
    // A signal has no code; what matters is that it is not 0.
    Ok(status.code().unwrap_or(-1))
}

/// Prints a heading, does the work, prints how long it took.
pub(crate) fn timed<T>(name: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    println!("==> {name}");
    let start = Instant::now();
    let outcome = work();
    let duration = start.elapsed();
    println!("    {name}: {:.1} s", duration.as_secs_f64());
    (outcome, duration)
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
